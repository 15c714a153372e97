import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { partBytes } from './part-room.ts'
import { openS3PartialStore } from './s3-partial-store.ts'
import type { S3Objects } from './s3-objects.ts'

async function* nothing(): AsyncGenerator<never> {}
const notHere = async (): Promise<never> => await Promise.reject(new Error('not asked for here'))

/** Takes objects and keeps what it was given, which is not copied; each is sent in so many attempts. */
function anObjectStore(isOver: (count: number) => boolean) {
  const given: Uint8Array[] = []
  const objects: S3Objects = {
    put: async (_key, bytes) => {
      given.push(bytes)
      return { isOver: isOver(given.length) }
    },
    sizeOf: notHere,
    find: notHere,
    read: notHere,
    delete: notHere,
    deleteAll: notHere,
    list: nothing,
    begin: notHere,
    putPart: notHere,
    complete: notHere,
    abort: notHere,
    listBegun: nothing,
    check: notHere,
    close: () => undefined,
  }
  return { objects, given }
}

test.each([
  ['every object went in one attempt', () => true, 0],
  ['an attempt for the first was given up', (count: number) => count > 1, partBytes],
  ['an attempt for the last was given up', (count: number) => count === 1, partBytes],
] as const)('memory that was sent from goes back only where %s', async (_when, isOver, left) => {
  const { objects, given } = anObjectStore(isOver)
  const writer = await openS3PartialStore(objects).append(randomUUID(), randomUUID(), 1)
  await writer.write(Buffer.alloc(partBytes + 10, 'a'))
  expect(await writer.close()).toBe(partBytes + 10)
  expect(given.map(({ byteLength }) => byteLength)).toEqual([left, left === 0 ? 0 : 10])
})
