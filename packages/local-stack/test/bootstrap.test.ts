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

/** Returns the output of a program that takes a lock after `prepare`: true if the lock is then its own. */
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
    ['by a process that has ended', 'writeFileSync(lock, "999999999")'],
    ['by a process with the same id in a killed container', 'writeFileSync(lock, String(process.pid))'],
    ['empty by a process on a full disk', 'writeFileSync(lock, ""); utimesSync(lock, 1, 1)'],
  ])('a lock that was left %s is taken over', async (_which, prepare) => {
    expect(await takeLock(prepare)).toBe('true\n')
  })

  test('a lock that another process takes over at the same moment stays with that process', async () => {
    const taking = `writeFileSync(lock, '999999999'); Atomics.wait = () => process.exit(0)
      const { kill } = process
      process.kill = (pid, signal) => {
        if (pid === 999999999) writeFileSync(lock, '${process.pid}')
        return kill.call(process, pid, signal)
      }`
    expect(await takeLock(taking)).toBe(`waiting for the installation by process ${process.pid}\n`)
  })

  test('a second process waits until the first has ended', async () => {
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

  test.each(['start', 'check', 'fix', 'docs'])('explains %s instead of running it', async (command) => {
    const { stderr } = await run(command, '--help')
    expect(stderr).toMatch(/^postern: (?:Runs|Checks|Formats|Writes) /)
    await expect(run(command, '--no-such-option')).rejects.toMatchObject({
      code: 1,
      stderr: `postern: npm run ${command} takes no arguments, but was given --no-such-option.\n`,
    })
  })

  test.each(['bench', 'test:providers'])(
    'explains %s, and rejects its unknown arguments in a sentence',
    async (command) => {
      const { stdout } = await run(command, '--help')
      expect(stdout).toContain(`Usage: npm run ${command}`)
      for (const argument of ['--no-such-option', 'no-such-name']) {
        const problem = `Unknown ${argument.startsWith('-') ? 'option' : 'argument'} '${argument}'.`
        const stderr = `${problem}\n${stdout}`
        await expect(run(command, argument)).rejects.toMatchObject({ code: 2, stdout: '', stderr })
      }
    },
  )

  test("leaves standard output to the operator's command", async () => {
    const { stdout } = await run('postern', '--help')
    expect(stdout).toMatch(/^Usage: postern /)
  })

  test("ends with the exit code of the operator's command", async () => {
    await expect(run('postern', 'no-such-command')).rejects.toMatchObject({ stdout: '', code: 2 })
  })
})
