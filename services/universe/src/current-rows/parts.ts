import { isTooLarge } from '@postern/service-kit'

/** The limit of one statement. An answer has at most twice as many bytes. */
const maxBytes = 16 * 1024 * 1024
/** The longest rows of so many keys have about 30 MB. */
const firstKeys = 250
const growth = 8

export interface Part {
  readonly rows: readonly string[]
  readonly reached: number
}

/** Reads as many rows as fit into an answer, at least one. */
export async function readPart(
  keys: readonly string[],
  list: (keys: readonly string[], maxBytes: number) => Promise<readonly string[]>,
): Promise<Part> {
  const rows: string[] = []
  let [reached, bytes, count] = [0, 0, firstKeys]
  let isLong = false
  while (reached < keys.length && bytes < maxBytes / 2) {
    const some = keys.slice(reached, reached + count)
    try {
      const found = await list(some, maxBytes)
      for (const text of found) {
        rows.push(text)
        bytes += text.length
      }
      reached += some.length
      count = some.length * (isLong ? 1 : growth)
    } catch (error) {
      if (!isTooLarge(error) || some.length === 1) throw error
      if (reached > 0) break
      isLong = true
      count = Math.ceil(some.length / 2)
    }
  }
  return { rows, reached }
}
