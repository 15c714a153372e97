import type { Entry } from 'ldapts'

/** The name of the entry above (RFC 4514); empty for a root. */
export function parentName(name: string): string {
  for (let at = 0; at < name.length; at++) {
    if (name[at] === '\\') at++
    else if (name[at] === ',') return name.slice(at + 1).trimStart()
  }
  return ''
}

/** Makes names from one server comparable. */
export function toPlainName(name: string): string {
  return name.replaceAll(/(?<!\\),\s+/g, ',').toLowerCase()
}

/** Attribute names are case-insensitive (RFC 4512, section 2.5). */
export function withRequestedNames(entry: Entry, asked: readonly string[]): Entry {
  const names = new Map(Object.keys(entry).map((name) => [name.toLowerCase(), name]))
  const named: Entry = { ...entry }
  for (const name of asked) {
    const value = entry[names.get(name.toLowerCase()) ?? name]
    if (value !== undefined) named[name] = value
  }
  return named
}

/** A text, or a GUID for the 16 bytes of Active Directory's `objectGUID`. */
export function keyOf(entry: Entry, attribute: string): string | undefined {
  const value = entry[attribute]
  const single = Array.isArray(value) ? value[0] : value
  if (typeof single === 'string') return single === '' ? undefined : single
  return single?.length === 16 ? guidText(single) : undefined
}

/** Single values have no list. Bytes become base64. */
export function valuesOf(entry: Entry): Record<string, unknown> {
  const attributes = Object.entries(entry).filter(([, value]) => !Array.isArray(value) || value.length > 0)
  return Object.fromEntries(
    attributes.map(([name, value]) => {
      const texts = (Array.isArray(value) ? value : [value]).map((each) =>
        typeof each === 'string' ? each : each.toString('base64'),
      )
      return [name, texts.length === 1 ? texts[0] : texts]
    }),
  )
}

/** The first three groups are stored with their lowest byte first (MS-DTYP, section 2.3.4). */
function guidText(bytes: Buffer): string {
  const order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]
  const hex = order.map((place) => bytes.toString('hex', place, place + 1)).join('')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
