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

function elementOf(value: unknown): string {
  if (value === undefined || value === null) return 'NULL'
  if (typeof value === 'number') return String(value)
  if (Buffer.isBuffer(value)) return String.raw`"\\x${value.toString('hex')}"`
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return special.test(text) ? `"${text.replaceAll(specials, String.raw`\$&`)}"` : `"${text}"`
}
