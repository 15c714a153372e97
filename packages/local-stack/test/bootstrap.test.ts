import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { repositoryRoot } from '../src/paths.ts'

const run = async (...args: readonly string[]) =>
  await promisify(execFile)(process.execPath, [join(repositoryRoot, 'packages/local-stack/bootstrap.mjs'), ...args], {
    timeout: 120_000,
  })

describe('the bootstrap', { timeout: 120_000 }, () => {
  test('refuses a command that there is not, and says which there are', async () => {
    await expect(run('deploy')).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr:
        'postern: no such command; there are start, test, test:faults, test:fuzz, test:upload, test:mutation, test:soak, check, fix, sbom, licences, bench, test:recovery, test:containers, postern\n',
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
