import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes that may have passed through and still lie about. */
export const collectEveryBytes: number = 8 * 1024 * 1024

let passed = 0
let collect: (() => void) | undefined

/**
 * Counts bytes of a body that was passed on, and lets go of their memory after every 8 MiB. Each chunk that Node reads is
 * memory outside the heap; V8 looks for what is dead among it when some 32 MiB have gathered, and a large upload so keeps
 * 70 MiB more than it holds. A collection of young objects finds them in about a millisecond, however large the heap.
 */
export function countPassedBytes(bytes: number): void {
  passed += bytes
  if (passed < collectEveryBytes) return
  passed = 0
  collect ??= findCollector()
  collect()
}

/** The collector has no other way in than a flag, which is taken back as soon as the function is there. */
function findCollector(): () => void {
  setFlagsFromString('--expose-gc')
  const found: unknown = runInNewContext('typeof gc === "function" ? gc : undefined')
  setFlagsFromString('--no-expose-gc')
  // Without it memory is as V8 keeps it: more, and no less right.
  if (typeof found !== 'function') return () => undefined
  return () => void Reflect.apply(found, undefined, [{ type: 'minor' }])
}
