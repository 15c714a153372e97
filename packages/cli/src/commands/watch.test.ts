import { PosternProblem } from '@postern/client'
import { type Run, runCountsSchema, runSchema } from '@postern/contracts'
import { expect, test } from 'vitest'
import { CliError } from '../cli-error.ts'
import { withGateway } from '../gateway.ts'
import { watch } from './show-run.ts'

const id = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
const begun = runSchema.parse({
  id,
  connector_id: null,
  connector_key: 'people',
  mode: 'apply',
  trigger: 'api',
  status: 'fetching',
  counts: Object.fromEntries(Object.keys(runCountsSchema.shape).map((name) => [name, 0])),
  breaches: [],
  failure: null,
  diff_hash: null,
  input_sha256: null,
  rollback_of: null,
  reason: null,
  attempt: 1,
  created_by: { type: 'api_key', id: 'k', label: 'k' },
  created_at: '2026-01-01T00:00:00.000Z',
  started_at: null,
  finished_at: null,
})

/** Watches a run until the connection breaks. Returns the output and the outcome. */
async function lose(error: Error, json?: true) {
  async function* follow(): AsyncGenerator<Run> {
    yield begun
    throw error
  }
  const said: string[] = []
  const context = {
    env: { POSTERN_URL: 'http://127.0.0.1:9', POSTERN_API_KEY: `postern_${'k3Y'.repeat(16)}z` },
    print: () => undefined,
    note: (line: string) => void said.push(line),
    progress: (line: string | undefined) => void said.push(line ?? 'ended'),
  }
  const options = json === undefined ? {} : { json }
  try {
    await withGateway(context, async () => await watch(context, { follow }, begun, options))
  } catch (failure) {
    if (failure instanceof CliError) return { said, failure }
    throw failure
  }
  return expect.fail('nothing was thrown')
}

test('a lost connection prints the id of the run and the command that shows it', async () => {
  const { said, failure } = await lose(new TypeError('fetch failed'))
  expect(said).toEqual([`run ${id}`, 'fetching  0 rows, 0 with errors', 'ended'])
  expect(failure.message).toMatch(
    new RegExp(
      `^http://127.0.0.1:9 does not answer \\(fetch failed\\); run ${id} continues on the server\\. Use .connectors show-run ${id}. `,
    ),
  )
  expect(failure).toMatchObject({ exitCode: 5, document: { code: 'unavailable', run: id } })
})

test('a revoked key prints the id of the run and the command that shows it', async () => {
  const problem = { type: 'about:blank', title: 'No', status: 401, code: 'key_revoked', instance: 'r1' } as const
  const { failure } = await lose(new PosternProblem(problem))
  expect(failure.message).toBe(
    `No (key_revoked, request r1); run ${id} continues on the server. Use \`connectors show-run ${id}\` to see its status`,
  )
  expect(failure).toMatchObject({ exitCode: 3, document: { code: 'key_revoked', run: id } })
})

test('with --json only the final document is printed', async () => {
  const { said, failure } = await lose(new TypeError('fetch failed'), true)
  expect([said, failure.document['run']]).toEqual([[], id])
})
