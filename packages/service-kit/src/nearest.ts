import { distance } from 'fastest-levenshtein'

/** Longer texts are not misspelled names, and take long to compare. */
const maxLength = 100

/** Returns the name that `given` was probably meant to be. Ignores case and the characters between words. */
export function findNearest(given: string, names: readonly string[]): string | undefined {
  if (given.length > maxLength) return undefined
  const plain = plainOf(given)
  const maxDistance = plain.length < 4 ? 1 : Math.max(2, Math.ceil(plain.length / 4))
  let nearest: { readonly name: string; readonly apart: number } | undefined
  for (const name of names) {
    const apart = distance(plain, plainOf(name))
    if (apart <= maxDistance && apart < (nearest?.apart ?? Infinity)) nearest = { name, apart }
  }
  return nearest?.name
}

function plainOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}
