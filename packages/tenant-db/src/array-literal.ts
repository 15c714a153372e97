const special = /["\\]/
const specials = /["\\]/g

/** Returns a PostgreSQL array literal, with null for undefined. Faster than the conversion of `pg`. */
export function arrayLiteral(values: readonly unknown[]): string {
  if (values.every(isPlain)) {
    const json = JSON.stringify(values)
    if (!json.includes('\\')) return `{${json.slice(1, -1)}}`
  }
  if (values.every(isJson)) {
    // JSON has no control characters, so a second JSON.stringify escapes only quotes and backslashes.
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
