/** Returns the start of a value as valid PostgreSQL text, for the owner of the data. */
export function excerptOf(value: unknown): string | null {
  if (value === undefined || value === null) return null
  const plain = bigintToText('', value)
  const text = typeof plain === 'string' ? plain : (JSON.stringify(plain, bigintToText) ?? '')
  return [...text.replaceAll('\u0000', '').toWellFormed()].slice(0, 80).join('')
}

function bigintToText(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
