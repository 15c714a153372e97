import { isTooLarge } from '@postern/service-kit'

/** Bytes that the rows of one statement may have, and half of those with which an answer ends. */
const mostBytes = 16 * 1024 * 1024
/** Keys that are looked up first: with the longest rows some 30 MB, which PostgreSQL writes and nobody keeps. */
const firstKeys = 250
/** How many times as many are looked up where those before were short. */
const more = 8

/** How rows stand, and of how many of the keys that tells, from the first on. */
export interface Part {
  /** Each as a text of JSON. */
  readonly rows: readonly string[]
  readonly reached: number
}

/**
 * Reads the rows of as many keys as fit into an answer, of one at least. `list` gives those of some keys, and rejects with ResultTooLarge where
 * they have more than so many bytes.
 */
export async function readPart(
  keys: readonly string[],
  list: (keys: readonly string[], maxBytes: number) => Promise<readonly string[]>,
): Promise<Part> {
  const rows: string[] = []
  let [reached, bytes, count] = [0, 0, firstKeys]
  let isLong = false
  while (reached < keys.length && bytes < mostBytes / 2) {
    const some = keys.slice(reached, reached + count)
    try {
      const found = await list(some, mostBytes)
      for (const text of found) {
        rows.push(text)
        bytes += text.length
      }
      reached += some.length
      count = some.length * (isLong ? 1 : more)
    } catch (error) {
      if (!isTooLarge(error) || some.length === 1) throw error
      // What is behind is asked for again, in the order of the keys.
      if (reached > 0) break
      isLong = true
      count = Math.ceil(some.length / 2)
    }
  }
  return { rows, reached }
}
