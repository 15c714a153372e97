import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'

/** The most bytes outside the heap while 256 MiB pass, in chunks of 64 KiB, in a process with these flags. */
function peakBytes(flags: readonly string[]): number {
  const program = `
    import { countPassedBytes } from '${import.meta.resolve('./passed-bytes.ts')}'
    const before = process.memoryUsage().arrayBuffers
    let peak = 0
    for (let chunks = 0; chunks < 4096; chunks += 1) {
      countPassedBytes(new Uint8Array(64 * 1024).byteLength)
      if (chunks % 16 === 0) peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
    }
    process.stdout.write(String(peak))`
  const output = execFileSync(process.execPath, [...flags, '--input-type=module', '--eval', program], {
    encoding: 'utf8',
  })
  return Number(output)
}

test('passed chunks are collected every 8 MiB in a process that was started with --expose-gc', () => {
  const peak = peakBytes(['--expose-gc'])
  expect(peak).toBeGreaterThan(0)
  expect(peak).toBeLessThan(3 * 8 * 1024 * 1024)
})

test('without the flag V8 collects when it wants to', () => {
  expect(peakBytes([])).toBeGreaterThan(3 * 8 * 1024 * 1024)
})
