import { createHash } from 'node:crypto'
import type { PersonRef, PoamProperty } from '@postern/contracts'

/** Where the names of properties and facets are Postern's own: a UUID of this use alone, as OSCAL wants a URI. */
export const namespace = 'urn:uuid:6d0f3c1e-2b57-4f0a-9a4e-51c7d8e0b6f2'

/**
 * The UUID (version 5, RFC 9562) of something of a tenant: OSCAL knows no version 7, and the same thing has the same UUID
 * in every export. The tenant cannot be told from it.
 */
export function oscalUuid(tenantId: string, name: string): string {
  const digest = createHash('sha1')
    .update(Buffer.from(tenantId.replaceAll('-', ''), 'hex'))
    .update(name)
    .digest()
  const bytes = digest.subarray(0, 16)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/** The text as OSCAL's string: one line without white space around it; undefined where nothing is left. */
export function oneLine(text: string): string | undefined {
  // Also what JavaScript's `.` takes for the end of a line.
  const line = text.replaceAll(/\s+/gu, ' ').trim()
  return line === '' ? undefined : line
}

/** A title as a line of Markdown that reads as the text does. */
export function markupLine(text: string): string {
  return markup(oneLine(text) ?? '-')
}

/** A text as Markdown in which nothing becomes a link, HTML, or an OSCAL insertion: it was written as plain text. */
export function markup(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>{}~^]/g, '\\$&')
}

/** The properties that there is a value for. */
export function properties(
  values: Readonly<Record<string, string | number | boolean | null | undefined>>,
): PoamProperty[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const line = value === null || value === undefined ? undefined : oneLine(String(value))
    return line === undefined ? [] : [{ name, ns: namespace, value: line }]
  })
}

/** The first moment of a day (UTC); undefined outside of the years that OSCAL can write. */
export function startOf(day: string): string | undefined {
  return isWritable(day) ? `${day}T00:00:00Z` : undefined
}

/** The last second of a day (UTC), by which what is due on it is to be done. */
export function endOf(day: string): string | undefined {
  return isWritable(day) ? `${day}T23:59:59Z` : undefined
}

/** OSCAL writes the years 1900 to 2999. */
export function isWritable(time: string): boolean {
  return time >= '1900' && time < '3000'
}

/** By what a person is told from others; the name of the UUID of the party. */
export function personKey({ person_id, email, name }: PersonRef): string {
  return `party:${person_id ?? email?.toLowerCase() ?? name?.toLowerCase() ?? ''}`
}
