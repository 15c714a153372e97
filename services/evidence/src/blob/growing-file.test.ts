import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdtemp, open, readFile, readdir, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Block, blockBytes, openBlocks } from '../digest/blocks.ts'
import { openGrowingFile } from './growing-file.ts'

const { take } = openBlocks(1)
let block: Block
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'growing-'))
  block = await take(0)
  randomBytes(blockBytes).copy(block.bytes)
})
afterAll(async () => await rm(folder, { recursive: true }))

/** Flags of each descriptor of this process for a path; none where the system does not tell. */
async function flagsOf(path: string): Promise<number[]> {
  const found: number[] = []
  for (const fd of await readdir('/proc/self/fd').catch(() => [])) {
    const target = await readlink(`/proc/self/fd/${fd}`).catch(() => '')
    if (target !== path) continue
    const info = await readFile(`/proc/self/fdinfo/${fd}`, 'utf8')
    found.push(Number.parseInt(/^flags:\s+(\d+)/m.exec(info)?.[1] ?? '', 8))
  }
  return found
}

/** Whether files of the folder can be written past the cache. */
async function canBeDirect(): Promise<boolean> {
  try {
    await (await open(join(folder, 'probe'), constants.O_CREAT | constants.O_WRONLY | constants.O_DIRECT)).close()
    return process.platform === 'linux'
  } catch {
    return false
  }
}

describe('a file that grows', () => {
  test('is what was appended, whichever way each piece took', async () => {
    const path = join(folder, 'mixed')
    const file = await openGrowingFile(path)
    const odd = randomBytes(100)
    const page = block.bytes.subarray(0, 4096)
    // Behind an odd piece no position is that of a page until the next one fills it up.
    const pieces = [
      block.bytes,
      page,
      odd,
      block.bytes,
      randomBytes(4096 - 100),
      block.bytes,
      block.bytes.subarray(1, 8),
    ]
    for (const piece of pieces) await file.append([piece])
    await file.append([odd, page])
    await file.append([])
    await file.sync()
    const expected = Buffer.concat([...pieces, odd, page])
    await file.close()
    await file.close()
    expect((await readFile(path)).equals(expected)).toBe(true)
  })

  test('takes blocks past the cache where it can, and is opened for that only then', async () => {
    const path = join(folder, 'direct')
    const file = await openGrowingFile(path)
    const isDirect = async () => (await flagsOf(path)).some((flags) => (flags & constants.O_DIRECT) !== 0)
    await file.append([randomBytes(4096)])
    expect(await isDirect()).toBe(false)
    await file.append([block.bytes])
    expect(await isDirect()).toBe(await canBeDirect())
    await file.close()
    expect(await flagsOf(path)).toEqual([])
  })
})
