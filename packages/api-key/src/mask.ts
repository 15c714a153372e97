const shownCharacters = 4

/** Returns the last four characters of a key's value, the only part that may be stored and shown. */
export function lastFourOf(value: string): string {
  return value.slice(-shownCharacters)
}

/** Returns the mask of a key: five bullets and the last four characters. A whole key passed by mistake stays hidden. */
export function maskKey(lastFour: string): string {
  return `•••••${lastFourOf(lastFour)}`
}
