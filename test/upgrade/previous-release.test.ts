import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { internalPaths } from '@postern/contracts/internal'
import { type TestStack, operator, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'
import { previousRelease, root } from './releases.ts'

const execute = promisify(execFile)
const { commit, version } = previousRelease()
const isThere = await execute('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).then(
  () => true,
  () => false,
)
const isShallow = await execute('git', ['rev-parse', '--is-shallow-repository'], { cwd: root }).then(
  ({ stdout }) => stdout.trim() === 'true',
  // No clone at all: an archive of the sources.
  () => true,
)
if (!isThere) process.stdout.write(`SKIPPED the services of ${version}: this clone does not have its commit\n`)

let sources: string
let stack: TestStack

/** The sources of the release, with the packages that are installed here. */
async function checkOut(folder: string): Promise<void> {
  const archive = join(folder, 'release.tar')
  await execute('git', ['archive', `--output=${archive}`, commit, 'package.json', 'packages', 'services'], {
    cwd: root,
  })
  await execute('tar', ['--extract', '--file', archive, '--directory', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const group of ['packages', 'services']) {
    for (const name of await readdir(join(folder, group))) {
      const links = join(root, group, name, 'node_modules')
      // The links are relative: what leads to a package of ours leads to that of the release.
      await cp(links, join(folder, group, name, 'node_modules'), { recursive: true, verbatimSymlinks: true }).catch(
        () => undefined,
      )
    }
  }
}

test(`the commit of ${version} is there, where the clone is whole`, () => expect(isThere || isShallow).toBe(true))

beforeAll(async () => {
  if (!isThere) return
  sources = await mkdtemp(join(tmpdir(), 'postern-release-'))
  await mkdir(sources, { recursive: true })
  await checkOut(sources)
  stack = await startTestStack({ sources })
})

afterAll(async () => {
  await stack?.stop()
  if (sources !== undefined) await rm(sources, { recursive: true, force: true })
})

test.skipIf(!isThere)(`the services of ${version} do their work on the schema of this release`, async () => {
  const gateway = stack.gateways[0] ?? ''
  const idSchema = z.looseObject({ id: z.string() })
  const asOperator = async (path: string, body: unknown, tenantId = operator.tenantId): Promise<unknown> => {
    const answer = await stack.operator.call({ ...operator, tenantId }, 'POST', path, { body })
    expect([200, 201], answer.text).toContain(answer.status)
    return answer.json
  }
  const tenant = idSchema.parse(await asOperator(internalPaths.tenants, { slug: 'upgrade', name: 'Upgrade' }))
  const made = idSchema
    .extend({ key: z.string() })
    .parse(await asOperator('/api/v1/api-keys', { label: 'x', scopes: ['*'], expires_in: '30d' }, tenant.id))
  const { key } = made

  const json = { key, method: 'POST' } as const
  const pushed = await send(gateway, '/api/v1/sync/entities', {
    ...json,
    body: [{ external_id: 'bank', name: 'Bank', type: 'legal_entity' }],
  })
  expect(pushed.status, pushed.text).toBe(200)
  const entities = await send(gateway, '/api/v1/entities', { key })
  expect(entities.json).toMatchObject([{ external_id: 'bank' }])

  const finding = await send(gateway, '/api/v1/findings', {
    ...json,
    body: {
      title: 'Old and new',
      condition: 'Seen.',
      criteria: 'Asked.',
      cause: 'Forgotten.',
      consequence: 'Little.',
      severity: 'low',
      entity_ids: z
        .array(idSchema)
        .parse(entities.json)
        .map((entity) => entity.id),
      owner: { name: 'Ada', email: 'ada@example.com' },
    },
  })
  expect(finding.status, finding.text).toBe(201)
  const { id } = idSchema.parse(finding.json)
  const changed = await send(gateway, `/api/v1/findings/${id}`, {
    key,
    method: 'PATCH',
    headers: { 'content-type': 'application/merge-patch+json', 'if-match': String(finding.headers['etag']) },
    body: JSON.stringify({ severity: 'high' }),
  })
  expect(changed.status, changed.text).toBe(200)
  expect((await send(gateway, '/api/v1/findings', { key })).json).toMatchObject([{ severity: 'high' }])
  const moved = await send(gateway, `/api/v1/findings/${id}/status`, {
    ...json,
    headers: { 'if-match': String(changed.headers['etag']) },
    body: { to: 'open' },
  })
  expect(moved.status, moved.text).toBe(200)
  expect((await send(gateway, `/api/v1/findings/${id}`, { key })).json).toMatchObject({ status: 'open' })

  const upload = await send(gateway, '/api/v1/evidence?file_name=a.txt', {
    ...json,
    headers: { 'content-type': 'text/plain' },
    body: Buffer.from('Seen.'),
  })
  expect(upload.json).toMatchObject({ sha256: createHash('sha256').update('Seen.').digest('hex') })
  expect((await send(gateway, '/api/v1/changes', { key })).status).toBe(200)

  await asOperator(`/api/v1/api-keys/${made.id}/revoke`, {}, tenant.id)
  expect((await send(gateway, '/api/v1/whoami', { key })).status).toBe(401)
})
