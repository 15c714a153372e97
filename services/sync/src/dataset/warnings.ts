import { type PushedPerson, type sentPersonSchema, addressAsName, isEmailAddress } from '@postern/contracts'
import { isSamePerson } from '@postern/contracts/internal'
import type { z } from 'zod'

export interface RowWarning {
  readonly field: string
  readonly code: 'residual_above_inherent' | 'unusable_address'
  readonly message: string
}

type Row = Readonly<Record<string, unknown>>

/** Warns if the residual risk is above the inherent one, which is probably a mistake. */
export function warningsOfEntity({ inherent_risk: inherent, residual_risk: residual }: Row): readonly RowWarning[] {
  const [before, left] = [scoreOf(inherent), scoreOf(residual)]
  if (before === undefined || left === undefined || left <= before) return []
  const message = `is above the inherent score of ${before}: check whether the two were swapped`
  return [{ field: 'residual_risk.score', code: 'residual_above_inherent', message }]
}

function scoreOf(risk: unknown): number | undefined {
  if (typeof risk !== 'object' || risk === null || !('score' in risk)) return undefined
  return typeof risk.score === 'number' ? risk.score : undefined
}

export const unusableAddress = {
  code: 'unusable_address',
  message: 'is not an e-mail address (RFC 5321, RFC 6531) and was left out',
} as const
const keptAsName = { ...unusableAddress, message: 'is not an e-mail address (RFC 5321, RFC 6531) and became the name' }

export function withUsableAddress({ email, ...person }: z.output<typeof sentPersonSchema>): {
  readonly person: PushedPerson
  readonly warnings: readonly RowWarning[]
} {
  const address = email?.trim()
  if (address === undefined) return { person, warnings: [] }
  if (isEmailAddress(address)) return { person: { ...person, email: address }, warnings: [] }
  return { person, warnings: [{ field: 'email', ...unusableAddress }] }
}

/** Returns a row without unusable addresses of people, and a warning about each. */
export function withUsableAddresses(row: Row): { readonly row: Row; readonly warnings: readonly RowWarning[] } {
  const warnings: RowWarning[] = []
  const changed = new Map<string, Row | undefined>()
  let renamed: string | undefined
  for (const [member, value] of Object.entries(row)) {
    if (member === 'custom' || !isRecord(value) || !('email' in value)) continue
    const { person, warning } = cleanPerson(value)
    if (person !== value) changed.set(member, person)
    if (warning !== undefined) warnings.push({ field: `${member}.email`, ...warning })
    if (warning === keptAsName) renamed = member
  }
  const email = row['email']
  if (email !== undefined && !(typeof email === 'string' && isEmailAddress(email))) {
    changed.set('email', undefined)
    warnings.push({ field: 'email', ...unusableAddress })
  }
  if (changed.size === 0) return { row, warnings }
  const { tester, reviewer } = { ...row, ...Object.fromEntries(changed) }
  // A placeholder such as `n/a` for both must not fail the row as a review of one's own test.
  if (renamed !== undefined && tester !== undefined && isSamePerson(tester, reviewer)) changed.set(renamed, undefined)
  const members = Object.entries({ ...row, ...Object.fromEntries(changed) })
  return {
    row: Object.fromEntries(members.filter(([member, value]) => value !== undefined || !changed.has(member))),
    warnings,
  }
}

/** If nothing else names the person, the address becomes the name. */
function cleanPerson(person: Row): {
  readonly person: Row | undefined
  readonly warning?: Pick<RowWarning, 'code' | 'message'>
} {
  if (typeof person['email'] === 'string' && isEmailAddress(person['email'])) return { person }
  const { email, ...rest } = person
  const isNamed = rest['name'] !== undefined || rest['person_id'] !== undefined
  if (email === null) return { person: isNamed ? rest : undefined }
  const address = typeof email === 'string' ? email.trim() : ''
  if (isEmailAddress(address)) return { person: { ...rest, email: address } }
  if (isNamed) return { person: rest, warning: unusableAddress }
  const name = addressAsName(address)
  return name === undefined
    ? { person: undefined, warning: unusableAddress }
    : { person: { ...rest, name }, warning: keptAsName }
}

function isRecord(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
