const special = /["\\]/
const specials = /["\\]/g

/**
 * An array as PostgreSQL reads it, to be given as the value of a parameter that is cast to an array: texts, numbers, bytes, objects
 * as their JSON, undefined as null. `pg` makes the same of an array in several times as long.
 */
export function arrayLiteral(values: readonly unknown[]): string {
  if (values.every(isPlain)) {
    // As PostgreSQL reads them, where none of them is escaped: JSON is written many times as fast.
    const json = JSON.stringify(values)
    if (!json.includes('\\')) return `{${json.slice(1, -1)}}`
  }
  if (values.every(isJson)) {
    // JSON holds neither control characters nor half pairs: to write it as a text of JSON escapes quotes and backslashes alone.
    const texts = values.map((value) => (value === undefined || value === null ? null : JSON.stringify(value)))
    return `{${JSON.stringify(texts).slice(1, -1)}}`
  }
  let literal = '{'
  let separator = ''
  for (const value of values) {
    literal += separator
    literal += elementOf(value)
    separator = ','
  }
  return `${literal}}`
}

function isPlain(value: unknown): boolean {
  return typeof value === 'string' || value === undefined || value === null || Number.isFinite(value)
}

function isJson(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && !Buffer.isBuffer(value))
}

function elementOf(value: unknown): string {
  if (value === undefined || value === null) return 'NULL'
  if (typeof value === 'number') return String(value)
  if (Buffer.isBuffer(value)) return String.raw`"\\x${value.toString('hex')}"`
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return special.test(text) ? `"${text.replaceAll(specials, String.raw`\$&`)}"` : `"${text}"`
}
