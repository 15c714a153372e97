import { randomUUID } from 'node:crypto'
import { ProblemError } from '@postern/service-kit'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createPartBuffer } from './part-buffer.ts'
import { type PartRoom, freeBytes, openPartRoom, partBytes, smallBytes } from './part-room.ts'

const more = Buffer.alloc(smallBytes + 1, 'a')
const full = Buffer.alloc(partBytes, 'b')

/** A buffer with what it was sent, and what of that was set aside; each of a tenant of its own. */
function aBuffer(room: PartRoom, tenantId: string = randomUUID()) {
  const sent: number[] = []
  const aside: number[] = []
  const buffer = createPartBuffer({
    room,
    tenantId,
    send: async (part) => {
      sent.push(part.length)
      return await Promise.resolve({ isOver: true })
    },
    setAside: async (part) => {
      sent.push(part.length)
      aside.push(part.length)
      return await Promise.resolve({ isOver: true })
    },
  })
  return { ...buffer, buffer, sent, aside }
}

test('who finds no room waits until another has sent its part, and what is small needs none of the room of large ones', async () => {
  const room = openPartRoom(1, 60_000, 60_000)
  const [first, second, third] = [aBuffer(room), aBuffer(room), aBuffer(room)]
  await first.write(full)
  let isThere = false
  const seconds = second.write(more).then(() => (isThere = true))
  await third.write(more.subarray(1))
  expect([room.isAwaited('whole'), room.isAwaited('small'), isThere]).toEqual([true, false, false])
  await first.write(more.subarray(0, freeBytes))
  await seconds
  expect([first.sent, first.buffer.length, first.buffer.hasRoom]).toEqual([[partBytes], freeBytes, false])
  expect(room.isAwaited('whole')).toBe(false)
  await second.release()
  await second.release()
  await third.write(more)
  expect(third.buffer.length).toBe(2 * smallBytes + 1)
})

test('a sender that fills its part slowly, or stands still, keeps nobody waiting: what it holds is sent before', async () => {
  const room = openPartRoom(1, 60_000, 0)
  const [slow, other] = [aBuffer(room), aBuffer(room)]
  await slow.write(more)
  await other.write(more)
  expect([slow.sent, slow.buffer.length, slow.buffer.hasRoom]).toEqual([[more.length], 0, false])
  await slow.write(more)
  expect([slow.buffer.length, other.sent]).toEqual([more.length, [more.length]])
})

test('who was given the room is asked in turn by those who wait still', async () => {
  const room = openPartRoom(1, 60_000, 0)
  const [first, second, third] = [aBuffer(room), aBuffer(room), aBuffer(room)]
  await first.write(more)
  await Promise.all([second.write(more), third.write(more)])
  expect([first.sent, second.sent, third.buffer.length]).toEqual([[more.length], [more.length], more.length])
})

test('the same of small parts', async () => {
  const room = openPartRoom(1, 60_000, 0)
  const small = more.subarray(0, freeBytes + 1)
  const buffers = Array.from({ length: 4 }, () => aBuffer(room))
  for (const { write } of buffers) await write(small)
  expect(buffers.map(({ buffer }) => buffer.length)).toEqual([0, 0, small.length, small.length])
  expect(buffers.map(({ aside }) => aside)).toEqual([[small.length], [small.length], [], []])
})

test('who waits for a large part keeps no small one meanwhile', async () => {
  const room = openPartRoom(1, 60_000, 60_000)
  const holder = aBuffer(room)
  await holder.write(more)
  const waiting = [aBuffer(room), aBuffer(room)]
  const written = waiting.map(async ({ write }) => {
    await write(more.subarray(1))
    await write(more)
  })
  await expect.poll(() => waiting.map(({ aside }) => aside)).toEqual([[smallBytes], [smallBytes]])
  for (let count = 0; count < 2; count += 1) await aBuffer(room).write(more.subarray(1))
  await holder.release()
  await Promise.race(written)
  for (const { release } of waiting) await release()
  await Promise.all(written)
  expect(waiting.map(({ sent }) => sent)).toEqual([[smallBytes], [smallBytes]])
})

test('whose tenant has its share asks no other for room, which others would be given', async () => {
  const room = openPartRoom(4, 60_000, 0)
  const tenant = randomUUID()
  const [first, second, third] = [aBuffer(room, tenant), aBuffer(room, tenant), aBuffer(room, tenant)]
  const other = randomUUID()
  const others = [aBuffer(room, other), aBuffer(room, other)]
  for (const { write } of [...others, first, second]) await write(more)
  await third.write(more)
  expect([first.sent, second.sent, third.buffer.length]).toEqual([[more.length], [], more.length])
  expect(others.map(({ sent }) => sent)).toEqual([[], []])
  // Who has less is helped by whoever holds most.
  await aBuffer(room).write(more)
  expect([...others, second, third].flatMap(({ sent }) => sent)).toEqual([more.length])
})

test('who is gone waits no longer, and is given no room', async () => {
  const room = openPartRoom(1, 60_000, 60_000)
  const [holder, waiting] = [aBuffer(room), aBuffer(room)]
  await holder.write(more)
  const gone = new AbortController()
  const written = waiting.buffer.write(more, gone.signal)
  await expect.poll(() => room.isAwaited('whole')).toBe(true)
  gone.abort(new Error('gone'))
  await expect(written).rejects.toThrow('gone')
  await expect(aBuffer(room).buffer.write(more, gone.signal)).rejects.toThrow('gone')
  expect(room.isAwaited('whole')).toBe(false)
  await holder.release()
  await aBuffer(room).write(more)
})

test('a part that is filled within a moment is not asked for before', async () => {
  const room = openPartRoom(1, 60_000, 60_000)
  const [fast, other] = [aBuffer(room), aBuffer(room)]
  await fast.write(more)
  const others = other.write(more)
  await fast.write(full.subarray(more.length))
  expect(fast.sent).toEqual([])
  await fast.flush()
  await others
  expect(fast.sent).toEqual([partBytes])
})

test('room that was waited for is not given away before what is to come into it', async () => {
  const room = openPartRoom(1, 60_000, 0)
  const [first, other] = [aBuffer(room), aBuffer(room)]
  await first.reserve(more.length)
  const others = other.write(more)
  await first.write(more)
  await others
  expect(first.sent).toEqual([more.length])
})

test('a tenant has half of the room and no more, and what is given back goes to who holds least', async () => {
  const room = openPartRoom(4, 60_000, 60_000)
  const tenant = randomUUID()
  const [first, second, third, fourth] = Array.from({ length: 4 }, () => aBuffer(room, tenant))
  if (first === undefined || second === undefined || third === undefined || fourth === undefined)
    throw new Error('none')
  await first.write(more)
  await second.write(more)
  let order = ''
  const thirds = third.write(more).then(() => (order += '3'))
  const fourths = fourth.write(more).then(() => (order += '4'))
  // Half is left to others.
  const [one, another, other] = [aBuffer(room), aBuffer(room), aBuffer(room)]
  await one.write(more)
  await another.write(more)
  const others = other.write(more).then(() => (order += 'o'))
  await second.flush()
  await others
  await one.flush()
  await thirds
  await another.flush()
  expect([order, room.isAwaited('whole')]).toEqual(['o3', true])
  await first.flush()
  await fourths
  expect(order).toBe('o34')
})

test('who has waited for long enough is told to come again, and whose turn that was is not lost', async () => {
  const room = openPartRoom(1, 20, 60_000)
  const holder = aBuffer(room)
  await holder.write(more)
  const refused: unknown = await aBuffer(room)
    .reserve(partBytes)
    .catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ProblemError)
  expect(refused).toMatchObject({ code: 'service_unavailable', options: { retryAfterSeconds: 30 } })
  await holder.release()
  const next = aBuffer(room)
  await next.write(Buffer.alloc(partBytes + 5))
  expect([next.sent, next.buffer.length]).toEqual([[partBytes], 5])
})

test('who waits several times for one write waits no longer than once', async () => {
  const open = openPartRoom(4, 60_000)
  const waits: number[] = []
  // Room is never there at once, and others wait for what is sent.
  const room: PartRoom = {
    ...open,
    takeNow: () => undefined,
    isAwaited: () => true,
    take: async (size, tenantId, onWanted, until) => {
      waits.push(until)
      return await open.take(size, tenantId, onWanted, until)
    },
  }
  const buffer = createPartBuffer({
    room,
    tenantId: randomUUID(),
    most: asMuchAsIsSmall,
    send: async (part) => {
      await part.prepend(
        () => smallBytes,
        async () => await Promise.resolve(),
      )
      return { isOver: true }
    },
    setAside: async () => await Promise.resolve({ isOver: true }),
  })
  await buffer.write(Buffer.alloc(2 * smallBytes))
  expect([waits.length, new Set(waits).size]).toEqual([3, 1])
})

test('who has sent for so long that no patience is left still waits for room a little', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const room = openPartRoom(1, 1000)
  const [holder, late] = [aBuffer(room), randomUUID()]
  await holder.write(more)
  const given = room.take('whole', late, () => undefined, performance.now())
  const refused = Promise.allSettled([room.take('whole', late, () => undefined, performance.now())])
  await vi.advanceTimersByTimeAsync(50)
  await holder.release()
  expect(await given).toMatchObject({ giveBack: expect.any(Function) })
  await vi.advanceTimersByTimeAsync(50)
  expect(await refused).toEqual([{ status: 'rejected', reason: expect.any(ProblemError) }])
})

const asMuchAsIsSmall = () => smallBytes

test('what could not be sent for the sake of others is told to who goes on, and to who ends', async () => {
  const room = openPartRoom(1, 60_000, 0)
  const [slow, ended] = Array.from({ length: 2 }, () =>
    createPartBuffer({ room, tenantId: randomUUID(), send: async () => await Promise.reject(new Error('away')) }),
  )
  await slow?.write(more)
  await ended?.write(more)
  await aBuffer(room).write(more)
  await expect(slow?.write(more)).rejects.toThrow('away')
  await expect(ended?.flush()).rejects.toThrow('away')
})

test('what was set aside comes before what came after it', async () => {
  const room = openPartRoom(1, 60_000)
  let bytes = ''
  const buffer = createPartBuffer({
    room,
    tenantId: randomUUID(),
    send: async (part) => {
      await part.prepend(asMuchAsIsSmall, async (target) => await Promise.resolve(void target.fill('x')))
      bytes = Buffer.from(part.bytes()).toString()
      return { isOver: true }
    },
  })
  await buffer.write(Buffer.from('abc'))
  await buffer.flush()
  expect(bytes).toBe(`${'x'.repeat(smallBytes)}abc`)
})
