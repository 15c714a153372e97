const shownCharacters = 4

/** The only part of a key that may be stored and shown. */
export function lastFourOf(value: string): string {
  return value.slice(-shownCharacters)
}

/** A whole key passed by mistake stays hidden. */
export function maskKey(lastFour: string): string {
  return `•••••${lastFourOf(lastFour)}`
}
