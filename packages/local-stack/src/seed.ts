import { rename, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type ApiKey,
  type CreatedApiKey,
  type GrantableScope,
  apiKeySchema,
  createdApiKeySchema,
  namedScopes,
} from '@postern/contracts'
import { type Tenant, internalPaths, tenantSchema } from '@postern/contracts/internal'
import { z } from 'zod'
import { demoProfiles, generateDemo } from './demo/generate.ts'
import { type DemoProfile, scaled } from './demo/profile.ts'
import { seedQuarantine } from './demo/quarantine.ts'
import { retryingCaller } from './demo/retry-while-busy.ts'
import { seedContent } from './demo/seed-content.ts'
import { type Principal, type SignedCaller, createSignedCaller, operator } from './signed-caller.ts'
import type { Stack } from './stack.ts'

export const demoSchema = z.object({
  gateways: z.array(z.string()),
  tenants: z.record(z.string(), z.object({ id: z.string(), keys: z.record(z.string(), z.string()) })),
  /** How many times as much the first tenant has. */
  scale: z.number().default(1),
})

/** What `demo.json` holds: where the gateways are, and for each demo tenant its id and its keys by their label. */
export type Demo = z.infer<typeof demoSchema>

/** One key for each scope, and one for everything; a key's label is its scope. */
const demoScopes = [...namedScopes, '*'] as const

interface Integration {
  readonly label: string
  readonly scopes: readonly GrantableScope[]
  readonly state: 'active' | 'expired' | 'revoked'
}

/**
 * Keys that integrations of a tenant would have, to look at: their values are written nowhere. A key without a life is
 * revoked at once; one with a second of it has soon expired.
 */
const integrations: Readonly<Record<DemoProfile['sector'], readonly Integration[]>> = {
  bank: [
    { label: 'BI read', scopes: ['read:findings', 'read:universe'], state: 'active' },
    { label: 'Evidence robot', scopes: ['write:evidence'], state: 'active' },
    { label: 'Ticket bridge', scopes: ['read:findings', 'write:findings'], state: 'active' },
    { label: 'HR sync', scopes: ['admin:sync'], state: 'active' },
    { label: 'Old export', scopes: ['read:*'], state: 'expired' },
    { label: 'Former consultant', scopes: ['read:findings'], state: 'revoked' },
  ],
  manufacturing: [
    { label: 'Group reporting', scopes: ['read:*'], state: 'active' },
    { label: 'Plant cameras', scopes: ['write:evidence'], state: 'active' },
    { label: 'Identity provider', scopes: ['admin:sync'], state: 'active' },
    { label: 'Former consultant', scopes: ['read:findings'], state: 'revoked' },
  ],
}

/**
 * Makes the two demo tenants with their keys and all that domain they have, as far as they are not there, and writes
 * `<home>/demo.json`, which only its owner may read. Of one that is made larger, which takes minutes, each step is said.
 */
export async function seed(
  home: string,
  { services, secrets, databaseUrl }: Stack,
  scale = 1,
  say?: (line: string) => void,
): Promise<Demo> {
  const path = join(home, 'demo.json')
  const before = await readDemo(path)
  if (before !== undefined && before.scale !== scale) {
    throw new Error(
      `the demo in ${home} was made with POSTERN_DEMO_SCALE=${before.scale}, and is not made larger or smaller: give POSTERN_HOME another folder`,
    )
  }
  const assertionKeys = secrets.rings.POSTERN_ASSERTION_KEYS
  const keys = retryingCaller(
    createSignedCaller({
      baseUrl: services.url('keys'),
      keyName: 'operator',
      ring: secrets.rings.POSTERN_SIGNING_OPERATOR,
      assertionKeys,
    }),
  )
  const tenants: Demo['tenants'] = {}
  const known = await listTenants(keys)
  for (const profile of demoProfiles) {
    const tenant = known.find(({ slug }) => slug === profile.slug) ?? (await createTenant(keys, profile))
    const written = before?.tenants[profile.slug]?.keys ?? {}
    tenants[profile.slug] = { id: tenant.id, keys: await ensureKeys(keys, tenant, written) }
  }
  const demo: Demo = { gateways: [...services.gateways], tenants, scale }
  // Before the content: a key that was made is never made again, whatever comes next.
  await writePrivately(path, `${JSON.stringify(demo, undefined, 2)}\n`)
  const [gateway] = services.gateways
  if (gateway === undefined) return demo
  const evidence = retryingCaller(
    createSignedCaller({
      baseUrl: services.url('evidence'),
      keyName: 'evidence',
      ring: secrets.rings.POSTERN_SIGNING_EVIDENCE,
      assertionKeys,
    }),
  )
  const today = new Date()
  const quarantining: Principal[] = []
  await Promise.all(
    demoProfiles.map(async (profile) => {
      const made = tenants[profile.slug]
      if (made === undefined) return
      const listed = await listKeys(keys, made.id)
      await ensureIntegrations(keys, made.id, { wanted: integrations[profile.sector], listed })
      const sender = listed.find(({ label, state }) => label === 'write:evidence' && state === 'active')
      const { id, label } = sender ?? { id: 'demo', label: 'write:evidence' }
      // The other one stays small, and has the same names all the same.
      const factor = profile === demoProfiles[0] ? scale : 1
      await seedContent(
        { gateway, databaseUrl, assertionKeys, evidence },
        { id: made.id, key: made.keys['*'] ?? '', sender: { id, label } },
        {
          findings: scaled(profile, factor).findings.all,
          make: () => generateDemo(profile, { today, factor }),
          ...(factor === 1 ? {} : { say: (step) => say?.(`${profile.name}: ${step}`) }),
        },
      )
      if (profile.evidence.quarantined === 0) return
      quarantining.push({ tenantId: made.id, kind: 'api_key', id, label, scopes: ['write:evidence'] })
    }),
  )
  await seedQuarantine({ services, databaseUrl: databaseUrl('evidence'), assertionKeys, evidence }, quarantining)
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

async function createTenant(keys: SignedCaller, { slug, name }: DemoProfile): Promise<Tenant> {
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
  const active = (await listKeys(keys, tenant.id)).filter(({ state }) => state === 'active')
  const all: Record<string, string> = {}
  for (const scope of demoScopes) {
    const value = written[scope]
    const isActive = active.some(({ label, masked }) => label === scope && value?.slice(-4) === masked.slice(-4))
    all[scope] =
      value !== undefined && isActive
        ? value
        : (await createKey(keys, principal, { label: scope, scopes: [scope], expires_in: '1y' })).key
  }
  return all
}

async function listKeys(keys: SignedCaller, tenantId: string): Promise<ApiKey[]> {
  const answer = await keys.call({ ...operator, tenantId }, 'GET', '/api/v1/api-keys?limit=1000')
  return z.array(apiKeySchema).parse(expectStatus(answer, 200, 'list the demo keys'))
}

async function createKey(
  keys: SignedCaller,
  principal: typeof operator,
  body: { readonly label: string } & Readonly<Record<string, unknown>>,
): Promise<CreatedApiKey> {
  const answer = await keys.call(principal, 'POST', '/api/v1/api-keys', { body })
  return createdApiKeySchema.parse(expectStatus(answer, 201, `create the demo key ${body.label}`))
}

async function ensureIntegrations(
  keys: SignedCaller,
  tenantId: string,
  { wanted, listed }: { readonly wanted: readonly Integration[]; readonly listed: readonly ApiKey[] },
): Promise<void> {
  const principal = { ...operator, tenantId }
  for (const { label, scopes, state } of wanted) {
    if (listed.some((key) => key.label === label)) continue
    const life =
      state === 'expired'
        ? { expires_in: 'custom', expires_at: new Date(Date.now() + soonMs).toISOString() }
        : { expires_in: '1y' }
    const { id } = await createKey(keys, principal, { label, scopes, ...life })
    if (state !== 'revoked') continue
    const body = { reason: 'The contract has ended.' }
    const answer = await keys.call(principal, 'POST', `/api/v1/api-keys/${id}/revoke`, { body })
    expectStatus(answer, 200, `revoke the demo key ${label}`)
  }
}

/** How long a key lives that is to be seen as expired. */
const soonMs = 2_000

/** The JSON of an answer with the expected status; otherwise an error that says what was tried, without any secret. */
function expectStatus(
  { status, text, json }: { readonly status: number; readonly text: string; readonly json: unknown },
  expected: number,
  what: string,
): unknown {
  if (status === expected) return json
  throw new Error(`could not ${what}: the answer was ${status} ${text.slice(0, 500)}`)
}
