import { freeChunk } from '@postern/service-kit'
import { type PartRoom, type Room, type RoomSize, freeBytes, partBytes, smallBytes } from './part-room.ts'
import type { Sent } from './s3-objects.ts'

/** Collects bytes up to a part, in memory that grows with them and is used again for the part after. */
export interface PartBuffer {
  /** Bytes that are held. */
  readonly length: number
  /** Whether it holds room that others may wait for. */
  readonly hasRoom: boolean
  /**
   * Sends a part that is full, and waits until so many bytes more find room, or as many as the part has. They are to be
   * written next: until then the room is not given to others. Rejects where there is none in time, or the store fails.
   */
  reserve(bytes: number): Promise<void>
  /** Takes the chunk, and sends what becomes full before more is taken. Waits as `reserve` does, until the signal is aborted. */
  write(chunk: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Sends what is held, and rejects where anything could not be sent. `by` is called also where nothing is held. */
  flush(by?: Send): Promise<void>
  /** Forgets what is held. */
  forget(): Promise<void>
  /**
   * Gives the room back, and the memory at once where nobody can still be reading it: the collector would let some of these
   * gather first, and whoever still read would find that of others. Harmless when repeated.
   */
  release(): Promise<void>
}

/** What is held, for who sends it. */
export interface HeldPart {
  readonly length: number
  /** Valid until the sending has ended. */
  bytes(): Uint8Array
  /**
   * Puts so many bytes before those that are held, a part in all; `fill` writes them. Waits for room, and may set aside
   * what is held meanwhile: how many they are is asked before and behind the wait.
   */
  prepend(count: () => number, fill: (target: Buffer) => Promise<void>): Promise<void>
}

type Send = (part: HeldPart) => Promise<Sent>

const bytesOf: Readonly<Record<RoomSize, number>> = { small: smallBytes, whole: partBytes }

/**
 * `send` brings what is held elsewhere: when a part is full, or before that where others wait for the room and the sender of
 * these bytes is slow. `setAside` does so with a small part and needs no room for it: where others wait for small ones, and
 * before this one waits for a whole one itself. `most` says how many bytes the part takes.
 */
export function createPartBuffer({
  room,
  tenantId,
  send,
  setAside = send,
  most = () => partBytes,
}: {
  readonly room: PartRoom
  readonly tenantId: string
  readonly send: Send
  readonly setAside?: Send
  readonly most?: () => number
}): PartBuffer {
  let buffer = Buffer.allocUnsafeSlow(freeBytes)
  let length = 0
  let held: { readonly size: RoomSize; readonly room: Room } | undefined
  /** Whether nobody reads the memory any more of all that was sent from it. */
  let isAllOver = true
  let isReserved = false
  let isWanted = false
  let failure: { readonly error: unknown } | undefined

  // One thing after the other: others ask for the room at any time.
  let turn: Promise<void> = Promise.resolve()
  /** Until when what is done now waits for room, however often: the gateway gives up who takes nothing for long. */
  let until = 0
  const inTurn = async (work: () => Promise<void>): Promise<void> => {
    const untilThen = room.until()
    const done = turn.then(async () => {
      until = untilThen
      await work()
    })
    turn = done.catch(() => undefined)
    await done
  }
  const assertWell = (): void => {
    if (failure !== undefined) throw failure.error
  }

  const drop = (): void => {
    length = 0
    if (isAllOver) freeChunk(buffer)
    buffer = Buffer.alloc(0)
    isAllOver = true
    held?.room.giveBack()
    held = undefined
  }

  const grow = (bytes: number): void => {
    if (bytes <= buffer.byteLength) return
    const limit = held === undefined ? freeBytes : bytesOf[held.size]
    // Whole at once: what was never used of it takes no memory, and two sizes of some MiB would lie beside each other.
    const wanted = bytes > smallBytes ? partBytes : Math.max(freeBytes, buffer.byteLength * 4, bytes)
    const larger = Buffer.allocUnsafeSlow(Math.min(limit, wanted))
    buffer.copy(larger, 0, 0, length)
    if (isAllOver) freeChunk(buffer)
    buffer = larger
    isAllOver = true
  }

  const roomFor = async (bytes: number, signal?: AbortSignal): Promise<void> => {
    if (bytes <= (held === undefined ? freeBytes : bytesOf[held.size])) return
    const before = held
    const size = bytes <= smallBytes ? 'small' : 'whole'
    const onWanted = () => giveWay(size)
    let next = room.takeNow(size, tenantId, onWanted)
    if (next === undefined) {
      // Who waits for a whole part keeps no small one from others meanwhile.
      if (before !== undefined) {
        if (length > 0) await sendOff(setAside)
        drop()
      }
      next = await room.take(size, tenantId, onWanted, until, signal)
    }
    held = { size, room: next }
    before?.room.giveBack()
  }

  const part: HeldPart = {
    get length() {
      return length
    },
    bytes: () => buffer.subarray(0, length),
    prepend: async (countNow, fill) => {
      await roomFor(length + countNow())
      const count = countNow()
      grow(length + count)
      buffer.copyWithin(count, 0, length)
      await fill(buffer.subarray(0, count))
      length += count
    },
  }

  const sendOff = async (by: Send): Promise<void> => {
    try {
      const { isOver } = await by(part)
      isAllOver = isAllOver && isOver
    } catch (error) {
      // What failed may still be under way in an attempt that was given up.
      isAllOver = false
      failure = { error }
      drop()
      throw error
    }
    length = 0
    if (held === undefined) return
    if (room.isAwaited(held.size)) drop()
    else held.room.renew()
  }

  /** Lets others have the room, once nothing else is under way. That it failed is told to who writes next. */
  const giveWay = (size: RoomSize): void => {
    const give = async (): Promise<void> => {
      if (held?.size !== size) return
      isWanted = isReserved
      if (isReserved) return
      if (length > 0) await sendOff(size === 'small' ? setAside : send)
      if (length === 0) drop()
    }
    inTurn(give).catch(() => undefined)
  }

  return {
    get length() {
      return length
    },
    get hasRoom() {
      return held !== undefined
    },
    reserve: async (bytes) =>
      await inTurn(async () => {
        assertWell()
        if (length === most()) await sendOff(send)
        await roomFor(Math.min(most(), length + bytes))
        isReserved = true
      }),
    write: async (chunk, signal) =>
      await inTurn(async () => {
        assertWell()
        for (let rest = chunk; rest.byteLength > 0;) {
          if (length === most()) await sendOff(send)
          const taken = Math.min(rest.byteLength, most() - length)
          await roomFor(length + taken, signal)
          grow(length + taken)
          buffer.set(rest.subarray(0, taken), length)
          length += taken
          rest = rest.subarray(taken)
        }
        isReserved = false
        // Not here: whoever writes holds a block for as long, of which there are few.
        if (isWanted && held !== undefined) giveWay(held.size)
        isWanted = false
      }),
    flush: async (by) =>
      await inTurn(async () => {
        assertWell()
        if (by !== undefined || length > 0) await sendOff(by ?? send)
      }),
    forget: async () =>
      await inTurn(async () => {
        length = 0
      }),
    release: async () =>
      await inTurn(async () => {
        isReserved = false
        drop()
      }),
  }
}
