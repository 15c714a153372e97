import type { Connector } from '../../api/sync.ts'

/** Connectors for pushes are created automatically. */
export type SourceType = Exclude<Connector['type'], 'inline_json' | 'scim_inbound'>

/** The settings of a source as text, by their path in `config` (`auth.username`). */
export type Values = Readonly<Record<string, string>>

interface SettingBase {
  readonly name: string
  readonly label: string
  readonly help?: string
  readonly isRequired?: boolean
  readonly isAdvanced?: boolean
  readonly when?: (values: Values) => boolean
}

export type Setting = SettingBase &
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
  readonly description: string
  readonly settings: readonly Setting[]
  readonly secrets: (values: Values) => readonly { readonly name: string; readonly label: string }[]
}

export function certificates(when?: (values: Values) => boolean): Setting {
  return {
    kind: 'lines',
    name: 'ca',
    label: 'Certificates to trust',
    placeholder: '-----BEGIN CERTIFICATE-----',
    help: 'PEM certificates to trust instead of the public authorities, for a server with a private certificate.',
    isAdvanced: true,
    ...(when === undefined ? {} : { when }),
  }
}

/** Shows a setting if another one has this value. */
export const is = (name: string, value: string) => (values: Values) => values[name] === value

export const optionsOf = (...values: readonly string[]) => values.map((value) => ({ value, label: value }))
