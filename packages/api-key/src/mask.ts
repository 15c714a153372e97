const shownCharacters = 4

/** Gives the last four characters of a key's value: all of it that may be stored in clear and shown to people. */
export function lastFourOf(value: string): string {
  return value.slice(-shownCharacters)
}

/**
 * Gives what people see of a key: five bullets and its last four characters.
 *
 * Whatever is given, no more than four characters of it come out, so a whole key passed by mistake stays hidden. The
 * four belong to the checksum and tell an attacker at most 24 of the 256 bits.
 */
export function maskKey(lastFour: string): string {
  return `•••••${lastFourOf(lastFour)}`
}
