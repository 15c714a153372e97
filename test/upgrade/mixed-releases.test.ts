import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestStack, operator, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { checkOut } from './checked-out-release.ts'
import { findLastReleases } from './releases.ts'

const running = (await findLastReleases()).at(-1)
const keySchema = z.looseObject({ id: z.string(), key: z.string() })
const patience = { timeout: 120_000 }
const eventsSchema = z.array(z.looseObject({ type: z.string() }))

if (running?.isThere !== true) {
  const reason = running === undefined ? 'no migration follows the schema baseline' : 'this clone lacks its commit'
  process.stdout.write(`SKIPPED a gateway of the release before: ${reason}\n`)
}

// A rollout replaces the keys service first.
describe.skipIf(running?.isThere !== true)(
  'the keys service of this release beside a gateway of the release before',
  () => {
    let sources: string
    let stack: TestStack
    let tenantId: string

    const ask = async (method: string, path: string, body?: unknown, as = tenantId): Promise<unknown> => {
      const answer = await stack.operator.call({ ...operator, tenantId: as }, method, path, { body })
      expect([200, 201], answer.text).toContain(answer.status)
      return answer.json
    }
    const createKey = async (scopes: readonly string[]) =>
      keySchema.parse(await ask('POST', '/api/v1/api-keys', { label: 'x', scopes, expires_in: '30d' }))
    const statusOf = async (key: string, path: string): Promise<number> =>
      // The older gateway may use other words than the contract of today.
      (await fetch(`${stack.gateways[0]}${path}`, { headers: { authorization: `ApiKey ${key}` } })).status
    const typesOf = async (id: string): Promise<string[]> =>
      eventsSchema.parse(await ask('GET', `/api/v1/api-keys/${id}/events`)).map(({ type }) => type)

    beforeAll(async () => {
      sources = await mkdtemp(join(tmpdir(), 'postern-release-'))
      await checkOut(running?.commit ?? '', sources)
      stack = await startTestStack({ sources, fromSources: ['gateway'] })
      const slug = { slug: 'mixed', name: 'Mixed' }
      tenantId = z
        .looseObject({ id: z.string() })
        .parse(await ask('POST', '/internal/v1/tenants', slug, operator.tenantId)).id
    })

    afterAll(async () => {
      await stack?.stop()
      if (sources !== undefined) await rm(sources, { recursive: true, force: true })
    })

    test('accepts keys, rejects revoked ones, and records uses and denials', { timeout: 300_000 }, async () => {
      const { id, key } = await createKey(['read:universe'])
      expect(await statusOf(key, '/api/v1/entities')).toBe(200)
      expect(await statusOf(key, '/api/v1/findings')).toBe(403)
      const usage = z.looseObject({ routes: z.array(z.looseObject({ requests: z.int() })) })
      await expect
        .poll(async () => usage.parse(await ask('GET', `/api/v1/api-keys/${id}/usage`)).routes, patience)
        .toHaveLength(1)
      await ask('POST', `/api/v1/api-keys/${id}/revoke`, {})
      expect(await statusOf(key, '/api/v1/entities')).toBe(401)
      await expect.poll(async () => await typesOf(id), patience).toContain('denied_revoked')
    })
  },
)
