import { PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes that may have passed through and still lie about. */
export const collectEveryBytes: number = 8 * 1024 * 1024

let passed = 0
let collector: ((kind: 'minor' | 'major') => void) | undefined

/**
 * Counts bytes of a body that was passed on, and lets go of their memory after every 8 MiB. Each chunk that Node reads is
 * memory outside the heap; V8 looks for what is dead among it when some 32 MiB have gathered, and a large upload so keeps
 * 70 MiB more than it holds. A collection of young objects finds them in about a millisecond, however large the heap.
 */
export function countPassedBytes(bytes: number): void {
  passed += bytes
  if (passed < collectEveryBytes) return
  passed = 0
  collect('minor')
}

/**
 * Collects all that is dead, in some 50 ms: for who makes many objects in a row that live for a moment. V8 lets what outlives
 * two of its collections of young objects gather to hundreds of MiB before it looks at it again.
 */
export function collectAll(): void {
  collect('major')
}

/**
 * Lets the memory of young objects grow no more from here on. V8 lets it grow to 48 MiB where many are
 * made, and to 128 where some of them outlive each of many collections, as chunks do that wait for a slow place: that takes few
 * collections from a process that works through much, and is seldom given back. A process that does nothing for some seconds has
 * 1 MiB of it left, for good: that suits who makes little. To be called once, first.
 */
export function keepYoungSmall(): void {
  letYoungGrow(false)
}

/**
 * Lets the memory of young objects grow to `bytes`, and little beyond. As `keepYoungSmall`, for who makes many objects, and has long pauses: with
 * 1 MiB behind one, each collection would come thirty times as often, and would take what lives for a moment for old. To be called once, first.
 */
export function boundYoung(bytes: number): void {
  let mayGrow: boolean | undefined
  const steer = (): void => {
    const isSmall = spaceOfYoung() < bytes
    if (isSmall !== mayGrow) letYoungGrow(isSmall)
    mayGrow = isSmall
  }
  steer()
  new PerformanceObserver(steer).observe({ entryTypes: ['gc'] })
}

/** It doubles, where much has outlived a collection. */
function letYoungGrow(mayGrow: boolean): void {
  setFlagsFromString(`--semi-space-growth-factor=${mayGrow ? 2 : 1}`)
}

function spaceOfYoung(): number {
  const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')
  return space?.space_size ?? Infinity
}

/**
 * Lets no place of the code make its objects among the old ones. V8 notes at which places of the code objects are made that live long, and makes
 * the next ones of such a place among the old ones at once, for ever: also the arrays of each request, after a minute in which
 * a cache was filled by the same code. There each keeps what it held until all memory is looked at. To be called once, first.
 */
export function makeAllYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * Lets three times what lives gather beside it before V8 looks at all memory, as it does by itself in a process that has been at work from
 * its start. Behind a pause of some seconds it lets a few MiB gather, and stays with that: who makes pages of a list, which are memory
 * outside the heap, then had all memory looked at five times a second, and needed twice the processor for each page, for good. To be called once, first.
 */
export function giveOldRoom(): void {
  setFlagsFromString('--heap-growing-percent=300')
}

function collect(kind: 'minor' | 'major'): void {
  collector ??= findCollector()
  collector(kind)
}

/** Smaller ones may be cut from memory that Node shares among many. */
const leastOwnBytes = 32 * 1024

/**
 * Gives the memory of a chunk back at once, so that the next one is read into what is still in the processor's cache: half
 * the cost of receiving a large body. Only for who alone has the chunk and needs it no more: whoever reads it afterwards finds
 * it empty, and a native call that is still at work on it would read what is no longer its own. Small chunks are left to the
 * collector.
 */
export function freeChunk(chunk: Buffer): void {
  const { buffer, byteLength } = chunk
  if (byteLength < leastOwnBytes || byteLength !== buffer.byteLength || !(buffer instanceof ArrayBuffer)) {
    countPassedBytes(byteLength)
    return
  }
  buffer.transfer(0)
}

/** The collector has no other way in than a flag, which is taken back as soon as the function is there. */
function findCollector(): (kind: 'minor' | 'major') => void {
  setFlagsFromString('--expose-gc')
  const found: unknown = runInNewContext('typeof gc === "function" ? gc : undefined')
  setFlagsFromString('--no-expose-gc')
  // Without it memory is as V8 keeps it: more, and no less right.
  if (typeof found !== 'function') return () => undefined
  return (type) => void Reflect.apply(found, undefined, [{ type }])
}
