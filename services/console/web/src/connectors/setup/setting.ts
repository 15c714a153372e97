import type { Connector } from '../../api/sync.ts'

/** Types of source that a person can set up; those for pushes are there by themselves. */
export type SourceType = Exclude<Connector['type'], 'inline_json' | 'scim_inbound'>

/** What the form holds of a source: every setting as text, by its place in `config` (`auth.username`). */
export type Values = Readonly<Record<string, string>>

interface Common {
  /** Its place in `config`. */
  readonly name: string
  readonly label: string
  readonly help?: string
  readonly isRequired?: boolean
  /** Among what most people leave as it is. */
  readonly isAdvanced?: boolean
  /** Whether it is asked for, by what else was chosen. */
  readonly when?: (values: Values) => boolean
}

export type Setting = Common &
  (
    | { readonly kind: 'text' | 'lines'; readonly placeholder?: string }
    | { readonly kind: 'number'; readonly placeholder?: string }
    /** Several, with commas between them. */
    | { readonly kind: 'list'; readonly placeholder?: string }
    | { readonly kind: 'yes' }
    | { readonly kind: 'choice'; readonly choices: readonly { readonly value: string; readonly label: string }[] }
  )

export interface SourceInfo {
  readonly title: string
  /** What it reads, in a sentence. */
  readonly tells: string
  readonly settings: readonly Setting[]
  /** Which secrets it needs, by what was chosen. */
  readonly secrets: (values: Values) => readonly { readonly name: string; readonly label: string }[]
}

/** Certificates of one's own authority. */
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

/** A setting that is asked for where another has this value. */
export const is = (name: string, value: string) => (values: Values) => values[name] === value

/** Choices that are called what they are. */
export const same = (...values: readonly string[]) => values.map((value) => ({ value, label: value }))
