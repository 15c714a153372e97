/** Bytes that pass between two collections. */
const collectEveryBytes = 8 * 1024 * 1024

let passed = 0

/**
 * Counts bytes of a body that was passed on, and collects young objects after every 8 MiB, if the process was started with
 * `--expose-gc`. Without the flag it does nothing. Decision 0030 says why.
 */
export function countPassedBytes(bytes: number): void {
  passed += bytes
  if (passed < collectEveryBytes) return
  passed = 0
  globalThis.gc?.({ type: 'minor' })
}

/** Collects everything, in some 50 ms, if the process was started with `--expose-gc`: for long runs over many rows. */
export function collectAll(): void {
  globalThis.gc?.({ type: 'major' })
}
