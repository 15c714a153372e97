const collectEveryBytes = 8 * 1024 * 1024

let passed = 0

/** Collects young objects after every 8 MiB of passed bytes, if the process runs with `--expose-gc` (decision 0030). */
export function countPassedBytes(bytes: number): void {
  passed += bytes
  if (passed < collectEveryBytes) return
  passed = 0
  globalThis.gc?.({ type: 'minor' })
}
