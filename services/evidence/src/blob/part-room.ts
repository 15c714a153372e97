import { totalmem } from 'node:os'
import { problem } from '@postern/service-kit'

/** Bytes of a part of an object. Amazon's S3 takes 10,000 parts: this is for 78 GiB. */
export const partBytes = 8 * 1024 * 1024

/** Bytes that need room for a small part only. */
export const smallBytes = 1024 * 1024

/** Bytes that need no room at all, as they are fewer than what a request holds anyway. */
export const freeBytes = 64 * 1024

/**
 * How long to wait for room, in milliseconds. The gateway gives up who takes nothing for 30 s (`answerWithinMs`): the wait ends
 * before that, with time left to send what was waited with.
 */
export const waitForRoomMs = 20_000

export type RoomSize = 'small' | 'whole'

/** For each whole part there is room for so many small ones. */
const smallPerWhole = 2

/** Memory for so many parts of objects at a time, small and whole ones, whoever's they are. */
export interface PartRoom {
  /**
   * Room for one part, where there is some at once; no tenant holds more than half. `onWanted` is called, at most once until
   * the room is renewed, when others wait and the part has been filling for long enough: how fast its sender is must be
   * nothing to them. Who waits because its tenant has its half asks that tenant alone.
   */
  takeNow(size: RoomSize, tenantId: string, onWanted: () => void): Room | undefined
  /**
   * The same, and who finds none waits: first comes who holds least, then who asked first. Rejects with a 503 where none is
   * given back by `until` (of `performance.now()`), and a tenth of the usual wait at least, and with the signal's reason as soon as it is aborted.
   */
  take(size: RoomSize, tenantId: string, onWanted: () => void, until: number, signal?: AbortSignal): Promise<Room>
  /** Until when to wait for all the room that one thing needs, which begins now. */
  until(): number
  /** Whether somebody waits. */
  isAwaited(size: RoomSize): boolean
}

export interface Room {
  /** Says that what was in it was sent, and that it begins to fill again. */
  renew(): void
  /** Harmless when repeated. */
  giveBack(): void
}

/**
 * `most` whole parts at a time, and small ones beside them; whoever finds no room waits for `waitMs` milliseconds, and whoever
 * has filled a part for `fillMs` is asked for it then.
 */
export function openPartRoom(most: number, waitMs: number, fillMs = 1000): PartRoom {
  const pools = {
    small: openPool(most * smallPerWhole, waitMs, fillMs),
    whole: openPool(most, waitMs, fillMs),
  }
  return {
    takeNow: (size, tenantId, onWanted) => pools[size].takeNow(tenantId, onWanted),
    take: async (size, tenantId, onWanted, until, signal) => await pools[size].take(tenantId, onWanted, until, signal),
    until: () => performance.now() + waitMs,
    isAwaited: (size) => pools[size].isAwaited(),
  }
}

interface Holder {
  readonly tenantId: string
  readonly onWanted: () => void
  /** When it began to fill. */
  since: number
  isAsked: boolean
}

interface Waiter {
  readonly tenantId: string
  readonly give: () => void
}

function openPool(most: number, waitMs: number, fillMs: number) {
  let free = most
  const share = Math.ceil(most / 2)
  const holders = new Set<Holder>()
  const waiting = new Set<Waiter>()
  const heldBy = new Map<string, number>()
  let asking: NodeJS.Timeout | undefined
  const heldOf = (tenantId: string): number => heldBy.get(tenantId) ?? 0
  const count = (tenantId: string, more: 1 | -1): void => {
    free -= more
    const held = heldOf(tenantId) + more
    if (held === 0) heldBy.delete(tenantId)
    else heldBy.set(tenantId, held)
  }

  const next = (): Waiter | undefined => {
    let first: Waiter | undefined
    for (const waiter of waiting) {
      if (first === undefined || heldOf(waiter.tenantId) < heldOf(first.tenantId)) first = waiter
    }
    return first !== undefined && heldOf(first.tenantId) < share ? first : undefined
  }

  /** How many rooms are waited for: by those whom any would help, and by those whose tenant has its share already. */
  const countWanted = () => {
    let ofAny = 0
    const ofOwn = new Map<string, number>()
    for (const { tenantId } of waiting) {
      if (heldOf(tenantId) < share) ofAny += 1
      else ofOwn.set(tenantId, (ofOwn.get(tenantId) ?? 0) + 1)
    }
    return {
      /** Whether the room of such a tenant would help; then it is counted as given. */
      take: (tenantId: string, isGiven: boolean): boolean => {
        const own = ofOwn.get(tenantId) ?? 0
        if (ofAny <= 0 && own <= 0) return false
        if (isGiven && ofAny > 0) ofAny -= 1
        else if (isGiven) ofOwn.set(tenantId, own - 1)
        return true
      },
    }
  }

  /** Asks as many as there are who wait, those of whom holds most first, then who has filled for longest. */
  const ask = (): void => {
    clearTimeout(asking)
    const wanted = countWanted()
    const others: Holder[] = []
    for (const holder of holders) {
      if (holder.isAsked) wanted.take(holder.tenantId, true)
      else others.push(holder)
    }
    let soonest = Infinity
    const now = performance.now()
    for (const holder of others.toSorted((a, b) => heldOf(b.tenantId) - heldOf(a.tenantId) || a.since - b.since)) {
      const left = holder.since + fillMs - now
      if (!wanted.take(holder.tenantId, left <= 0)) continue
      if (left > 0) {
        soonest = Math.min(soonest, left)
        continue
      }
      holder.isAsked = true
      holder.onWanted()
    }
    if (soonest < Infinity) asking = setTimeout(ask, soonest)
  }

  const settle = (): void => {
    while (free > 0) {
      const waiter = next()
      if (waiter === undefined) break
      waiting.delete(waiter)
      count(waiter.tenantId, 1)
      waiter.give()
    }
    ask()
  }

  const turn = async (tenantId: string, until: number, signal: AbortSignal | undefined): Promise<void> =>
    await new Promise((resolve, reject) => {
      const end = (): void => {
        waiting.delete(waiter)
        clearTimeout(limit)
        signal?.removeEventListener('abort', leave)
      }
      const leave = (): void => {
        end()
        reject(signal?.aborted === true ? signal.reason : tooMany())
      }
      // Who has sent for long meanwhile has not waited for room yet.
      const limit = setTimeout(leave, Math.max(waitMs / 10, until - performance.now()))
      const waiter = {
        tenantId,
        give: () => {
          end()
          resolve()
        },
      }
      waiting.add(waiter)
      signal?.addEventListener('abort', leave)
      if (signal?.aborted === true) leave()
      else ask()
    })

  const hold = (tenantId: string, onWanted: () => void): Room => {
    const holder: Holder = { tenantId, onWanted, since: performance.now(), isAsked: false }
    holders.add(holder)
    // Who gave the room has asked already, before there was this one to be asked.
    if (waiting.size > 0) ask()
    return {
      renew: () => {
        holder.since = performance.now()
        holder.isAsked = false
      },
      giveBack: () => {
        if (!holders.delete(holder)) return
        count(tenantId, -1)
        settle()
      },
    }
  }

  const takeNow = (tenantId: string, onWanted: () => void): Room | undefined => {
    // Where some is free, who waits is of a tenant that has its share.
    if (free === 0 || heldOf(tenantId) >= share) return undefined
    count(tenantId, 1)
    return hold(tenantId, onWanted)
  }

  return {
    isAwaited: () => waiting.size > 0,
    takeNow,
    take: async (
      tenantId: string,
      onWanted: () => void,
      until: number,
      signal: AbortSignal | undefined,
    ): Promise<Room> => {
      const now = takeNow(tenantId, onWanted)
      if (now !== undefined) return now
      await turn(tenantId, until, signal)
      return hold(tenantId, onWanted)
    },
  }
}

function tooMany(): Error {
  return problem('service_unavailable', {
    detail:
      'More files come than the store of evidence takes at present. There is no receipt; send the file again later, or go on with a resumable upload from where HEAD says.',
    retryAfterSeconds: 30,
  })
}

/** How many parts, with the small ones beside them, take half of the memory that the process may have: that of its container, else that of the machine. */
export function partsInMemory(): number {
  const constrained = process.constrainedMemory()
  const memory = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
  return Math.min(256, Math.max(4, Math.floor(memory / 2 / (partBytes + smallPerWhole * smallBytes))))
}
