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
  const line = xmlText(text).replaceAll(/\s+/gu, ' ').trim()
  return line === '' ? undefined : line
}

/** A title as a line of Markdown that reads as the text does. */
export function markupLine(text: string): string {
  return markup(oneLine(text) ?? '-')
}

/** A plain text as Markdown that reads as the text does: nothing in it becomes markup, an entity or an OSCAL insertion. */
export function markup(text: string): string {
  return (
    xmlText(text)
      .replaceAll(/\r\n?/g, '\n')
      .replaceAll(/[\\`*_[\]<>{}~^&|"$]/g, String.raw`\$&`)
      // What begins a heading, a list, a rule, an underline or a table's delimiter row.
      .replaceAll(/(?<=^[ \t]*)[-#+=:]/gm, String.raw`\$&`)
      .replaceAll(/(?<=^[ \t]*\d{1,9})[.)]/gm, String.raw`\$&`)
      // Four leading blanks would begin code, fewer would be dropped, and two at the end would break the line.
      .replaceAll(/^[ \t]|[ \t]$/gm, (blank) => (blank === ' ' ? '&#32;' : '&#9;'))
  )
}

/** The text with U+FFFD for each character that XML 1.0 cannot hold, so that the document can be converted. */
export function xmlText(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.toWellFormed().replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
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
  return isWritable(day) ? writableTime(`${day}T00:00:00Z`) : undefined
}

/** The last second of a day (UTC), by which what is due on it is to be done. */
export function endOf(day: string): string | undefined {
  return isWritable(day) ? writableTime(`${day}T23:59:59Z`) : undefined
}

/**
 * The same moment in a form that NIST's pattern matches. The pattern has no 29 February before 2000: on that day the time is
 * written with an offset, by which it is 28 February or 1 March.
 */
export function writableTime(time: string): string {
  const [, year, hour = 0, rest] = /^(19\d\d)-02-29T(\d\d)(:.*)Z$/.exec(time) ?? []
  if (year === undefined) return time
  const isMorning = Number(hour) < 12
  const localHour = String((Number(hour) + 12) % 24).padStart(2, '0')
  return `${year}-${isMorning ? '02-28' : '03-01'}T${localHour}${rest}${isMorning ? '-12:00' : '+12:00'}`
}

/** OSCAL writes the years 1900 to 2999. */
export function isWritable(time: string): boolean {
  return time >= '1900' && time < '3000'
}

/** By what a person is told from others; the name of the UUID of the party. */
export function personKey({ person_id, email, name }: PersonRef): string {
  return `party:${person_id ?? email?.toLowerCase() ?? name?.toLowerCase() ?? ''}`
}
