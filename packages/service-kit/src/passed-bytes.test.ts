import { execFileSync } from 'node:child_process'
import { getHeapSpaceStatistics } from 'node:v8'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { collectAll, collectEveryBytes, countPassedBytes, freeChunk, keepYoungSmall } from './passed-bytes.ts'

test('chunks that have passed do not gather: 256 MiB of them leave no more than a few steps of the collection', () => {
  const chunkBytes = 64 * 1024
  const before = process.memoryUsage().arrayBuffers
  let peak = 0
  for (let sent = 0; sent < 256 * 1024 * 1024; sent += chunkBytes) {
    const chunk = new Uint8Array(chunkBytes)
    countPassedBytes(chunk.byteLength)
    if (sent % (1024 * 1024) === 0) peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
  }
  expect(peak).toBeGreaterThan(0)
  expect(peak).toBeLessThan(3 * collectEveryBytes)
})

test('the memory of a chunk is given back at once, unless others may share it', () => {
  const shared = Buffer.from(new ArrayBuffer(128 * 1024), 0, 64 * 1024)
  const small = Buffer.alloc(1024)
  freeChunk(shared)
  freeChunk(small)
  expect([shared.length, small.length]).toEqual([64 * 1024, 1024])
  const chunk = Buffer.allocUnsafeSlow(64 * 1024 * 1024)
  const before = process.memoryUsage().arrayBuffers
  freeChunk(chunk)
  expect(chunk.length).toBe(0)
  expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThan(60 * 1024 * 1024)
})

test('what has outlived collections of young objects goes with all else that is dead', async () => {
  const before = process.memoryUsage().arrayBuffers
  let held: Uint8Array[] = Array.from({ length: 64 }, () => new Uint8Array(1024 * 1024))
  // Twice, so that they are young no longer.
  for (let turn = 0; turn < 2; turn += 1) countPassedBytes(collectEveryBytes)
  expect(held).toHaveLength(64)
  held = []
  collectAll()
  // V8 frees it in another thread.
  await expect.poll(() => process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 1024 * 1024)
})

const spaceOfYoung = (): number =>
  getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? Infinity

test('the memory of young objects stays as it is, though many of them outlive one collection after the other', () => {
  keepYoungSmall()
  let waiting: object[] = []
  const work = () => {
    waiting = Array.from({ length: 20_000 }, (_none, at) => ({ at }))
    countPassedBytes(collectEveryBytes)
  }
  // A collection of all memory may just have left it half of what it has at the least.
  work()
  const before = spaceOfYoung()
  for (let turn = 0; turn < 100; turn += 1) work()
  expect(waiting).toHaveLength(20_000)
  expect(spaceOfYoung()).toBeLessThanOrEqual(before)
})

/** What a script prints, in a process of its own. */
function printedBy(script: string, options: readonly string[] = []): string {
  return execFileSync(process.execPath, [...options, '--input-type=module', '--eval', script], { encoding: 'utf8' })
}

test('the memory of young objects grows again behind a pause that took it away, and not beyond its bound', () => {
  const printed = printedBy(
    `import { boundYoung } from '${import.meta.resolve('./passed-bytes.ts')}'
    import { setTimeout } from 'node:timers/promises'
    import { getHeapSpaceStatistics } from 'node:v8'
    const young = () => getHeapSpaceStatistics().find((space) => space.space_name === 'new_space').space_size / 2 ** 20
    // Much of it outlives a collection or two.
    const work = async () => {
      let waiting = []
      for (let turn = 0; turn < 100; turn += 1) {
        waiting = Array.from({ length: 20_000 }, (_none, at) => ({ at, turn }))
        await setTimeout(1)
      }
      return waiting.length
    }
    boundYoung(8 * 2 ** 20)
    // As V8 collects for who is idle.
    gc({ type: 'major', flavor: 'last-resort' })
    const behindPause = young()
    await work()
    console.log(JSON.stringify([behindPause, young()]))`,
    ['--expose-gc'],
  )
  const [behindPause, after] = z.tuple([z.number(), z.number()]).parse(JSON.parse(printed))
  expect(behindPause).toBeLessThanOrEqual(2)
  expect(after).toBeGreaterThanOrEqual(8)
  expect(after).toBeLessThanOrEqual(16)
})

/** What V8 says of its own version and flags. */
function flagsOf(options: readonly string[], before: string): string {
  return printedBy(`${before}; console.log(process.getBuiltinModule('node:v8').cachedDataVersionTag())`, options)
}

test.each([
  ['no place in the code makes its objects among the old ones', 'makeAllYoung', '--no-allocation-site-pretenuring'],
  ['behind a pause as much may gather beside what lives as before it', 'giveOldRoom', '--heap-growing-percent=300'],
])('%s', (_what, name, flag) => {
  const call = `import { ${name} } from '${import.meta.resolve('./passed-bytes.ts')}'; ${name}()`
  expect(flagsOf([], call)).toBe(flagsOf([flag], ''))
  expect(flagsOf([], call)).not.toBe(flagsOf([], ''))
})
