import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assertNoKeyIn, assertNoKeyInLine } from '../src/testing/assert-no-key.ts'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-logs-'))
  await mkdir(join(folder, 'stack', 'logs'), { recursive: true })
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

test('a key in any log of a run is found, and the message does not repeat it', async () => {
  const log = join(folder, 'stack', 'logs', 'gateway-1.log')
  const key = `postern_${'a'.repeat(49)}`
  await writeFile(log, '{"event":"request"}\n{"label":"postern_short"}\n')
  await assertNoKeyIn(folder)
  await writeFile(log, `{"event":"request"}\n{"note":"${key}"}\n`)
  const error = await assertNoKeyIn(folder).catch((thrown: unknown) => thrown)
  expect(String(error)).toContain(`${log} contains an API key in line 2`)
  expect(String(error)).not.toContain(key)
})

test('a key in a log line of a service in the process of its test is found', () => {
  const key = `postern_${'a'.repeat(49)}`
  expect(() => assertNoKeyInLine('{"label":"postern_short"}')).not.toThrow()
  expect(() => assertNoKeyInLine(`{"note":"${key}"}`)).toThrow(/^a line of the log contains an API key$/)
})
