import { ProblemError } from '@postern/service-kit'
import { expect, test } from 'vitest'
import { createPartBuffer, freeBytes, partBytes } from './part-buffer.ts'
import { openPartRoom } from './part-room.ts'

const more = Buffer.alloc(freeBytes + 1, 'a')

test('more buffers than there is room for: who finds none holds what is free, and goes on when another has sent its part', async () => {
  const room = openPartRoom(2, 60_000)
  const [first, second, third, fourth] = Array.from({ length: 4 }, () => createPartBuffer(room))
  if (first === undefined || second === undefined || third === undefined || fourth === undefined)
    throw new Error('none')
  await first.add(more)
  await second.add(more)
  await third.add(Buffer.alloc(freeBytes))
  expect(room.isAwaited()).toBe(false)
  let order = ''
  const thirds = third.add(more).then(() => (order += '3'))
  const fourths = fourth.add(more).then(() => (order += '4'))
  expect(room.isAwaited()).toBe(true)
  expect([third.length, fourth.length]).toEqual([freeBytes, 0])
  // Sent, and more of the same file comes: it stands behind who waits.
  first.clear(true)
  await thirds
  expect(order).toBe('3')
  const firsts = first.add(more).then(() => (order += '1'))
  second.release(true)
  second.release(true)
  await fourths
  expect(order).toBe('34')
  third.release(false)
  await firsts
  expect([order, room.isAwaited()]).toEqual(['341', false])
  expect(Buffer.compare(first.bytes(), more)).toBe(0)
})

test('who has waited for long enough is told to come again, and whose turn that was is not lost', async () => {
  const room = openPartRoom(1, 20)
  const holder = createPartBuffer(room)
  await holder.add(more)
  const refused: unknown = await createPartBuffer(room)
    .reserve(partBytes)
    .catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ProblemError)
  expect(refused).toMatchObject({ code: 'service_unavailable', options: { retryAfterSeconds: 30 } })
  holder.release(true)
  const next = createPartBuffer(room)
  expect((await next.add(Buffer.alloc(partBytes + 5))).byteLength).toBe(5)
  expect(next.isFull()).toBe(true)
})
