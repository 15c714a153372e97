import type { Connector } from '../../api/sync.ts'

/** Source types that people can set up. Connectors for pushes are created automatically. */
export type SourceType = Exclude<Connector['type'], 'inline_json' | 'scim_inbound'>

/** The settings of a source as text, by their path in `config` (`auth.username`). */
export type Values = Readonly<Record<string, string>>

interface Common {
  /** Path in `config`. */
  readonly name: string
  readonly label: string
  readonly help?: string
  readonly isRequired?: boolean
  /** Most people keep the default. */
  readonly isAdvanced?: boolean
  /** Returns whether the setting is shown, depending on other values. */
  readonly when?: (values: Values) => boolean
}

export type Setting = Common &
  (
    | { readonly kind: 'text' | 'lines'; readonly placeholder?: string }
    | { readonly kind: 'number'; readonly placeholder?: string }
    /** Comma-separated. */
    | { readonly kind: 'list'; readonly placeholder?: string }
    | { readonly kind: 'yes' }
    | { readonly kind: 'choice'; readonly choices: readonly { readonly value: string; readonly label: string }[] }
  )

export interface SourceInfo {
  readonly title: string
  /** What the source reads, in a sentence. */
  readonly tells: string
  readonly settings: readonly Setting[]
  /** Returns the secrets that the chosen values need. */
  readonly secrets: (values: Values) => readonly { readonly name: string; readonly label: string }[]
}

/** The certificates of a private authority. */
export function certificates(when?: (values: Values) => boolean): Setting {
  return {
    kind: 'lines',
    name: 'ca',
    label: 'Certificates to trust',
    placeholder: '-----BEGIN CERTIFICATE-----',
    help: 'In PEM, in place of the system’s own: for a server with a certificate of your own authority.',
    isAdvanced: true,
    ...(when === undefined ? {} : { when }),
  }
}

/** Shows a setting if another one has this value. */
export const is = (name: string, value: string) => (values: Values) => values[name] === value

/** Returns choices that are labelled with their value. */
export const same = (...values: readonly string[]) => values.map((value) => ({ value, label: value }))
