import { createHash } from 'node:crypto'
import type { PersonRef, PoamProperty } from '@postern/contracts'

/** OSCAL requires a URI. */
export const namespace = 'urn:uuid:6d0f3c1e-2b57-4f0a-9a4e-51c7d8e0b6f2'

/** Returns a version 5 UUID (RFC 9562) that is the same in every export and does not reveal the tenant. */
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

/** Undefined if the text is blank. */
export function toOneLine(text: string): string | undefined {
  const line = xmlText(text).replaceAll(/\s+/gu, ' ').trim()
  return line === '' ? undefined : line
}

export function markupLine(text: string): string {
  return escapeMarkup(toOneLine(text) ?? '-')
}

/** Escapes Markdown, including entities and OSCAL insertions. */
export function escapeMarkup(text: string): string {
  return (
    xmlText(text)
      .replaceAll(/\r\n?/g, '\n')
      .replaceAll(/[\\`*_[\]<>{}~^&|"$]/g, String.raw`\$&`)
      // Starts of headings, lists, rules, underlines and delimiter rows of tables.
      .replaceAll(/(?<=^[ \t]*)[-#+=:]/gm, String.raw`\$&`)
      .replaceAll(/(?<=^[ \t]*\d{1,9})[.)]/gm, String.raw`\$&`)
      // Four leading blanks start code, and two trailing ones break the line.
      .replaceAll(/^[ \t]|[ \t]$/gm, (blank) => (blank === ' ' ? '&#32;' : '&#9;'))
  )
}

/** XML 1.0 does not allow these characters. */
export function xmlText(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.toWellFormed().replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
}

export function properties(
  values: Readonly<Record<string, string | number | boolean | null | undefined>>,
): PoamProperty[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const line = value === null || value === undefined ? undefined : toOneLine(String(value))
    return line === undefined ? [] : [{ name, ns: namespace, value: line }]
  })
}

/** Returns undefined if OSCAL cannot write the year. */
export function startOf(day: string): string | undefined {
  return isWritable(day) ? writableTime(`${day}T00:00:00Z`) : undefined
}

/** Returns undefined if OSCAL cannot write the year. */
export function endOf(day: string): string | undefined {
  return isWritable(day) ? writableTime(`${day}T23:59:59Z`) : undefined
}

/** Writes 29 February of 19xx as another day with an offset, because NIST's pattern rejects it. */
export function writableTime(time: string): string {
  const [, year, hour = 0, rest] = /^(19\d\d)-02-29T(\d\d)(:.*)Z$/.exec(time) ?? []
  if (year === undefined) return time
  const isMorning = Number(hour) < 12
  const localHour = String((Number(hour) + 12) % 24).padStart(2, '0')
  return `${year}-${isMorning ? '02-28' : '03-01'}T${localHour}${rest}${isMorning ? '-12:00' : '+12:00'}`
}

export function isWritable(time: string): boolean {
  return time >= '1900' && time < '3000'
}

export function personKey({ person_id, email, name }: PersonRef): string {
  return `party:${person_id ?? email?.toLowerCase() ?? name?.toLowerCase() ?? ''}`
}
