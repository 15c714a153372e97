const special = /["\\]/
const specials = /["\\]/g

/**
 * An array as PostgreSQL reads it, to be given as the value of a parameter that is cast to an array: texts, numbers, bytes, objects
 * as their JSON, undefined as null. `pg` makes the same of an array in several times as long.
 */
export function arrayLiteral(values: readonly unknown[]): string {
  let literal = '{'
  let separator = ''
  for (const value of values) {
    literal += separator
    literal += elementOf(value)
    separator = ','
  }
  return `${literal}}`
}

function elementOf(value: unknown): string {
  if (value === undefined || value === null) return 'NULL'
  if (typeof value === 'number') return String(value)
  if (Buffer.isBuffer(value)) return String.raw`"\\x${value.toString('hex')}"`
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return special.test(text) ? `"${text.replaceAll(specials, String.raw`\$&`)}"` : `"${text}"`
}
