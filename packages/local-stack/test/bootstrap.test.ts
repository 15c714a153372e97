import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { repositoryRoot } from '../src/paths.ts'

const run = async (...args: readonly string[]) =>
  await promisify(execFile)(process.execPath, [join(repositoryRoot, 'packages/local-stack/bootstrap.mjs'), ...args], {
    timeout: 120_000,
  })

/** Runs a program that takes a lock after `prepare`, and gives what it says: true where the lock was its own. */
async function takeLock(prepare: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lock-'))
  const lock = JSON.stringify(join(folder, 'lock'))
  const module = JSON.stringify(pathToFileURL(join(repositoryRoot, 'packages/local-stack/exclusively.mjs')).href)
  const program = `
    import { readFileSync, utimesSync, writeFileSync } from 'node:fs'
    import { exclusively } from ${module}
    const lock = ${lock}
    ${prepare}
    exclusively(lock, () => console.log(readFileSync(lock, 'utf8') === String(process.pid)), console.log)`
  const args = ['--input-type=module', '--eval', program]
  try {
    return (await promisify(execFile)(process.execPath, args, { timeout: 20_000 })).stdout
  } finally {
    await rm(folder, { recursive: true })
  }
}

describe('one process at a time prepares a clone', () => {
  test.each([
    ['was left by one that is gone', 'writeFileSync(lock, "999999999")'],
    ['has our number, of a container that was killed', 'writeFileSync(lock, String(process.pid))'],
    ['was left empty, by one that had no room', 'writeFileSync(lock, ""); utimesSync(lock, 1, 1)'],
  ])('and takes over a lock that %s', async (_which, prepare) => {
    expect(await takeLock(prepare)).toBe('true\n')
  })

  test('and waits for one that is alive', async () => {
    const waiting = `writeFileSync(lock, '${process.pid}'); Atomics.wait = () => process.exit(0)`
    expect(await takeLock(waiting)).toBe(`waiting for the installation by process ${process.pid}\n`)
  })
})

describe('the bootstrap', { timeout: 120_000 }, () => {
  test('rejects an unknown command and lists the known ones', async () => {
    await expect(run('deploy')).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr:
        'postern: Unknown command. Use one of start, test, test:faults, test:fuzz, test:upload, test:oscal, test:mutation, test:soak, check, fix, sbom, licences, bench, docs, client, test:recovery, test:clients, test:containers, test:providers, postern.\n',
    })
  })

  test("leaves standard output to the operator's command", async () => {
    const { stdout } = await run('postern', '--help')
    expect(stdout).toMatch(/^Usage: postern /)
  })

  test("ends with the exit code of the operator's command", async () => {
    await expect(run('postern', 'no-such-command')).rejects.toMatchObject({ stdout: '', code: 2 })
  })
})
