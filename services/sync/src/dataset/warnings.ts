import { type PushedPerson, type sentPersonSchema, isEmailAddress } from '@postern/contracts'
import type { z } from 'zod'

/** What is doubtful in a row that is taken in all the same. */
export interface RowWarning {
  /** The field, with dots between its members. */
  readonly field: string
  readonly code: 'residual_above_inherent' | 'unusable_address'
  readonly message: string
}

type Row = Readonly<Record<string, unknown>>

/** What is left of a risk is rarely more than the risk was before anything was done about it. */
export function warningsOfEntity({ inherent_risk: inherent, residual_risk: residual }: Row): readonly RowWarning[] {
  const [before, left] = [scoreOf(inherent), scoreOf(residual)]
  if (before === undefined || left === undefined || left <= before) return []
  const message = `is above the inherent score of ${before}: look whether the two were exchanged`
  return [{ field: 'residual_risk.score', code: 'residual_above_inherent', message }]
}

function scoreOf(risk: unknown): number | undefined {
  if (typeof risk !== 'object' || risk === null || !('score' in risk)) return undefined
  return typeof risk.score === 'number' ? risk.score : undefined
}

const unusableAddress = {
  code: 'unusable_address',
  message: 'is no e-mail address (RFC 5321, RFC 6531), and was left out',
} as const

/** Returns a person without an address that cannot be used, and a warning about it. */
export function withUsableAddress({ email, ...person }: z.output<typeof sentPersonSchema>): {
  readonly person: PushedPerson
  readonly warnings: readonly RowWarning[]
} {
  const address = email?.trim()
  if (address === undefined) return { person, warnings: [] }
  if (isEmailAddress(address)) return { person: { ...person, email: address }, warnings: [] }
  return { person, warnings: [{ field: 'email', ...unusableAddress }] }
}

/**
 * Returns a draft of a row without addresses of people that cannot be used, and a warning about each. Who is named only by such a text keeps
 * it as a name.
 */
export function withUsableAddresses(draft: Row): { readonly draft: Row; readonly warnings: readonly RowWarning[] } {
  const warnings: RowWarning[] = []
  const clean = (value: Row, place: string): Row => {
    const { email, ...rest } = value
    const isUnusable = typeof email === 'string' && !isEmailAddress(email)
    if (isUnusable) warnings.push({ field: `${place}email`, ...unusableAddress })
    const isNamed = place === '' || 'name' in rest || 'person_id' in rest
    return isUnusable ? { ...rest, ...(isNamed || email === '' ? {} : { name: email }) } : value
  }
  const people = Object.entries(draft).flatMap(([member, value]) =>
    isRecord(value) && member !== 'custom' && 'email' in value ? [[member, clean(value, `${member}.`)] as const] : [],
  )
  const cleaned = 'email' in draft ? clean(draft, '') : draft
  return warnings.length === 0
    ? { draft, warnings }
    : { draft: { ...cleaned, ...Object.fromEntries(people) }, warnings }
}

function isRecord(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
