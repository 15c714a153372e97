import { rename, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { apiKeySchema, createdApiKeySchema, entitySchema, namedScopes } from '@postern/contracts'
import { type Tenant, internalPaths, tenantSchema } from '@postern/contracts/internal'
import { request } from 'undici'
import { z } from 'zod'
import { dateBefore, demoTenants, type DemoTenant } from './demo-content.ts'
import { createSignedCaller, operator, type SignedCaller } from './signed-caller.ts'
import type { Stack } from './stack.ts'

export const demoSchema = z.object({
  gateways: z.array(z.string()),
  tenants: z.record(z.string(), z.object({ id: z.string(), keys: z.record(z.string(), z.string()) })),
})

/** What `demo.json` holds: where the gateways are, and for each demo tenant its id and its keys by their label. */
export type Demo = z.infer<typeof demoSchema>

/** One key for each scope, and one for everything; a key's label is its scope. */
const demoScopes = [...namedScopes, '*'] as const

/**
 * Makes the two demo tenants with their keys, entities and findings, as far as they are not there, all through the
 * services' own interfaces, and writes `<home>/demo.json`, which only its owner may read.
 */
export async function seed(home: string, { services, secrets }: Stack): Promise<Demo> {
  const path = join(home, 'demo.json')
  const before = await readDemo(path)
  const keys = createSignedCaller({
    baseUrl: services.url('keys'),
    keyName: 'operator',
    ring: secrets.rings.POSTERN_SIGNING_OPERATOR,
    assertionKeys: secrets.rings.POSTERN_ASSERTION_KEYS,
  })
  const tenants: Demo['tenants'] = {}
  const known = await listTenants(keys)
  for (const demo of demoTenants) {
    const tenant = known.find(({ slug }) => slug === demo.slug) ?? (await createTenant(keys, demo))
    tenants[demo.slug] = { id: tenant.id, keys: await ensureKeys(keys, tenant, before?.tenants[demo.slug]?.keys ?? {}) }
  }
  const demo: Demo = { gateways: [...services.gateways], tenants }
  // Before the content: a key that was made is never made again, whatever comes next.
  await writePrivately(path, `${JSON.stringify(demo, undefined, 2)}\n`)
  const [gateway] = services.gateways
  if (gateway === undefined) return demo
  for (const content of demoTenants) {
    const key = tenants[content.slug]?.keys['*']
    if (key !== undefined) await ensureContent(gateway, key, content)
  }
  return demo
}

async function readDemo(path: string): Promise<Demo | undefined> {
  try {
    return demoSchema.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    // Not there, or not what it should be: it is written anew from what the services say.
    return undefined
  }
}

async function writePrivately(path: string, text: string): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await writeFile(unfinished, text, { mode: 0o600 })
  await rename(unfinished, path)
}

async function listTenants(keys: SignedCaller): Promise<Tenant[]> {
  const answer = await keys.call(operator, 'GET', internalPaths.tenants)
  return z.array(tenantSchema).parse(expectStatus(answer, 200, 'list the tenants'))
}

async function createTenant(keys: SignedCaller, { slug, name }: DemoTenant): Promise<Tenant> {
  const answer = await keys.call(operator, 'POST', internalPaths.tenants, { body: { slug, name } })
  return tenantSchema.parse(expectStatus(answer, 201, `create the tenant ${slug}`))
}

/** The keys that are written down and still active, and new ones for the rest. */
async function ensureKeys(
  keys: SignedCaller,
  tenant: Tenant,
  written: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const principal = { ...operator, tenantId: tenant.id }
  const listed = await keys.call(principal, 'GET', '/api/v1/api-keys?state=active&limit=1000')
  const active = z.array(apiKeySchema).parse(expectStatus(listed, 200, `list the keys of ${tenant.slug}`))
  const all: Record<string, string> = {}
  for (const scope of demoScopes) {
    const value = written[scope]
    const isActive = active.some(({ label, masked }) => label === scope && value?.slice(-4) === masked.slice(-4))
    all[scope] = value !== undefined && isActive ? value : await createKey(keys, principal, scope)
  }
  return all
}

async function createKey(keys: SignedCaller, principal: typeof operator, scope: string): Promise<string> {
  const body = { label: scope, scopes: [scope], expires_in: '1y' }
  const answer = await keys.call(principal, 'POST', '/api/v1/api-keys', { body })
  return createdApiKeySchema.parse(expectStatus(answer, 201, `create the demo key for ${scope}`)).key
}

/** Pushes the entities and those findings that are not there, through the gateway. */
async function ensureContent(gateway: string, key: string, { slug, entities, findings }: DemoTenant): Promise<void> {
  const call = async (method: 'GET' | 'POST', target: string, body?: unknown) => {
    const { statusCode, body: answer } = await request(`${gateway}${target}`, {
      method,
      headers: {
        authorization: `ApiKey ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: statusCode, text, json: parse(text) }
  }
  const found = await call('GET', '/api/v1/findings?limit=1000')
  const present = z
    .array(z.object({ external_id: z.string().nullable() }))
    .parse(expectStatus(found, 200, `read the findings of ${slug}`))
  // All that an interrupted start did not get to; nothing is made twice.
  const missing = findings.filter((finding) => !present.some(({ external_id }) => external_id === finding.external_id))
  if (missing.length === 0) return
  expectStatus(await call('POST', '/api/v1/sync/entities', entities), 200, `push the entities of ${slug}`)
  const listed = expectStatus(await call('GET', '/api/v1/entities?limit=1000'), 200, `read the entities of ${slug}`)
  const ids = new Map(
    z
      .array(entitySchema)
      .parse(listed)
      .map(({ id, external_id }) => [external_id, id]),
  )
  for (const { entities: affected, daysAgo, owner, ...finding } of missing) {
    const body = {
      ...finding,
      status: 'open',
      source: 'internal_audit',
      entity_ids: affected.flatMap((name) => ids.get(name) ?? []),
      owner: { email: owner },
      identified_date: dateBefore(daysAgo),
    }
    expectStatus(await call('POST', '/api/v1/findings', body), 201, `create the finding ${finding.external_id}`)
  }
}

/** The JSON of an answer with the expected status; otherwise an error that says what was tried, without any secret. */
function expectStatus(
  { status, text, json }: { readonly status: number; readonly text: string; readonly json: unknown },
  expected: number,
  what: string,
): unknown {
  if (status === expected) return json
  throw new Error(`could not ${what}: the answer was ${status} ${text.slice(0, 500)}`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
