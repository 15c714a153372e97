import { Readable } from 'node:stream'
import { countPassedBytes } from '@postern/service-kit'
import { handled } from './handled.ts'

/**
 * The bytes of an upload: the next part is read while one is taken, as long as there is one. That a part cannot be read is told to who
 * comes to it, and to nobody where none does.
 */
export function readParts(partAt: (index: number) => Promise<Buffer | undefined>): Readable {
  async function* parts(): AsyncGenerator<Buffer> {
    let next = handled(partAt(0))
    for (let index = 1; ; index += 1) {
      const part = await next
      if (part === undefined) return
      next = handled(partAt(index))
      // As it came, the text that it was read from, and what was made of it.
      countPassedBytes(part.length * 3)
      yield part
    }
  }
  return Readable.from(parts(), { objectMode: false })
}
