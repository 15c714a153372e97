import { createHash } from 'node:crypto'

export interface Random {
  int(min: number, max: number): number
  pick<T>(list: readonly T[]): T
  shuffled<T>(list: readonly T[]): T[]
}

export function createRandom(seed: string): Random {
  // The sfc32 generator; not for secrets.
  const state = createHash('sha256').update(seed).digest()
  let [a, b, c, d] = [state.readInt32LE(0), state.readInt32LE(4), state.readInt32LE(8), state.readInt32LE(12)]
  const next = (): number => {
    const sum = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + sum) | 0
    return (sum >>> 0) / 2 ** 32
  }
  for (let turn = 0; turn < 12; turn += 1) next()

  const int = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1))
  return {
    int,
    pick: (list) => memberOf(list, int(0, list.length - 1)),
    shuffled: (list) => {
      const copy = [...list]
      for (let last = copy.length - 1; last > 0; last -= 1) {
        const other = int(0, last)
        const [one, two] = [memberOf(copy, last), memberOf(copy, other)]
        copy[last] = two
        copy[other] = one
      }
      return copy
    },
  }
}

export function memberOf<T>(list: readonly T[], index: number): T {
  const found = list[index % list.length]
  if (found === undefined) throw new RangeError('an empty list has no member')
  return found
}

export function apportion(whole: number, shares: readonly number[]): number[] {
  const total = shares.reduce((sum, share) => sum + share, 0)
  const exact = shares.map((share) => (whole * share) / total)
  const parts = exact.map(Math.floor)
  const rest = exact
    .map((value, index) => ({ index, rest: value - Math.floor(value) }))
    .toSorted((one, other) => other.rest - one.rest || one.index - other.index)
  const missing = whole - parts.reduce((sum, part) => sum + part, 0)
  for (const { index } of rest.slice(0, missing)) parts[index] = (parts[index] ?? 0) + 1
  return parts
}

export function uuidOf(text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  // Version 8 (RFC 9562, section 5.8).
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
