import { readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { releaseLock, tryLock } from './lock-file.ts'
import { makeTestFolder } from './testing/cluster.ts'

const ended = 999_999_999

async function openFolder(): Promise<{ readonly folder: string; readonly lock: string }> {
  const folder = await makeTestFolder('lock')
  return { folder, lock: join(folder, 'lock') }
}

test('a lock that another process takes over at the same moment stays with that process', async () => {
  const { folder, lock } = await openFolder()
  await writeFile(lock, `${ended}\n`)
  const isHolder = async (pid: number): Promise<boolean> => {
    if (pid !== ended) return true
    await rm(lock)
    await writeFile(lock, `${process.ppid}\n`)
    return false
  }
  expect(await tryLock(lock, isHolder)).toEqual({ isOurs: false, holder: process.ppid })
  expect(await readFile(lock, 'utf8')).toBe(`${process.ppid}\n`)
  expect(await readdir(folder)).toEqual(['lock'])
})

test('a lock of an ended process is taken over, and one of a live process is not', async () => {
  const { folder, lock } = await openFolder()
  expect(await tryLock(lock)).toEqual({ isOurs: true, wasAbandoned: false })
  expect(await tryLock(lock)).toEqual({ isOurs: false, holder: process.pid })
  for (const content of [`${ended}\n`, 'not a number', '']) {
    await writeFile(lock, content)
    expect(await tryLock(lock), content).toEqual({ isOurs: true, wasAbandoned: true })
  }
  await releaseLock(lock)
  expect(await readdir(folder)).toEqual([])
})
