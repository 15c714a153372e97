import { rename, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ApiKey, type CreatedApiKey, apiKeySchema, createdApiKeySchema, namedScopes } from '@postern/contracts'
import { type Tenant, internalPaths, tenantSchema } from '@postern/contracts/internal'
import { z } from 'zod'
import { generateDemo } from './demo/generate.ts'
import { retryingCaller } from './demo/retry-while-busy.ts'
import { type Scenario, readScenarios, scaleScenario } from './demo/scenario.ts'
import { seedContent } from './demo/seed-content.ts'
import { type SignedCaller, createSignedCaller, operator } from './signed-caller.ts'
import type { Stack } from './stack.ts'

export const demoSchema = z.object({
  gateways: z.array(z.string()),
  tenants: z.record(z.string(), z.object({ id: z.string(), keys: z.record(z.string(), z.string()) })),
  scale: z.number().default(1),
})

export type Demo = z.infer<typeof demoSchema>

const demoScopes = [...namedScopes, '*'] as const

export interface SeedTarget extends Pick<Stack, 'databaseUrl'> {
  readonly services: Pick<Stack['services'], 'url' | 'gateways'>
  readonly secrets: {
    readonly rings: Pick<
      Stack['secrets']['rings'],
      'POSTERN_ASSERTION_KEYS' | 'POSTERN_SIGNING_OPERATOR' | 'POSTERN_SIGNING_EVIDENCE'
    >
  }
}

/** Writes `<home>/demo.json` with mode 0600. */
export async function seed(
  home: string,
  { services, secrets, databaseUrl }: SeedTarget,
  scale = 1,
  say?: (line: string) => void,
  scenarios: readonly Scenario[] = readScenarios(),
): Promise<Demo> {
  const path = join(home, 'demo.json')
  const before = await readDemo(path)
  if (before !== undefined && before.scale !== scale) {
    throw new Error(
      `The demo in ${home} has POSTERN_DEMO_SCALE=${before.scale}, which cannot change. Set POSTERN_HOME to another folder.`,
    )
  }
  const assertionKeys = secrets.rings.POSTERN_ASSERTION_KEYS
  const keys = callKeysService(services.url('keys'), secrets)
  const tenants: Demo['tenants'] = {}
  for (const [scenario, tenant] of await ensureTenants(keys, scenarios)) {
    const written = before?.tenants[scenario.slug]?.keys ?? {}
    tenants[scenario.slug] = { id: tenant.id, keys: await ensureKeys(keys, tenant, written) }
  }
  const demo: Demo = { gateways: [...services.gateways], tenants, scale }
  // No key is lost if the rest fails.
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
  await Promise.all(
    scenarios.map(async (scenario) => {
      const made = tenants[scenario.slug]
      if (made === undefined) return
      const listed = await listKeys(keys, made.id)
      await ensureIntegrations(keys, made.id, { wanted: scenario.keys, listed })
      const sender = listed.find(({ label, state }) => label === 'write:evidence' && state === 'active')
      const { id, label } = sender ?? { id: 'demo', label: 'write:evidence' }
      const factor = scenario === scenarios[0] ? scale : 1
      await seedContent(
        { gateway, databaseUrl, assertionKeys, evidence },
        { id: made.id, key: made.keys['*'] ?? '', sender: { id, label } },
        {
          findings: scaleScenario(scenario, factor).counts.findings.all,
          make: () => generateDemo(scenario, { today, factor }),
          ...(factor === 1 ? {} : { say: (step) => say?.(`${scenario.name}: ${step}`) }),
        },
      )
    }),
  )
  return demo
}

async function readDemo(path: string): Promise<Demo | undefined> {
  try {
    return demoSchema.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return undefined
  }
}

async function writePrivately(path: string, text: string): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await writeFile(unfinished, text, { mode: 0o600 })
  await rename(unfinished, path)
}

/** Creates the tenants of the demo, before gateways start that know their slugs. */
export async function seedTenants(keysUrl: string, secrets: SeedTarget['secrets']): Promise<void> {
  await ensureTenants(callKeysService(keysUrl, secrets), readScenarios())
}

function callKeysService(baseUrl: string, { rings }: SeedTarget['secrets']): SignedCaller {
  const { POSTERN_SIGNING_OPERATOR: ring, POSTERN_ASSERTION_KEYS: assertionKeys } = rings
  return retryingCaller(createSignedCaller({ baseUrl, keyName: 'operator', ring, assertionKeys }))
}

async function ensureTenants(
  keys: SignedCaller,
  scenarios: readonly Scenario[],
): Promise<readonly (readonly [Scenario, Tenant])[]> {
  const known = await listTenants(keys)
  const all: (readonly [Scenario, Tenant])[] = []
  for (const scenario of scenarios) {
    all.push([scenario, known.find(({ slug }) => slug === scenario.slug) ?? (await createTenant(keys, scenario))])
  }
  return all
}

async function listTenants(keys: SignedCaller): Promise<Tenant[]> {
  const answer = await keys.call(operator, 'GET', internalPaths.tenants)
  return z.array(tenantSchema).parse(expectStatus(answer, 200, 'list the tenants'))
}

async function createTenant(keys: SignedCaller, { slug, name }: Scenario): Promise<Tenant> {
  const answer = await keys.call(operator, 'POST', internalPaths.tenants, { body: { slug, name } })
  const made = answer.status === 409 ? (await listTenants(keys)).find((tenant) => tenant.slug === slug) : undefined
  if (made !== undefined) return made
  return tenantSchema.parse(expectStatus(answer, 201, `create the tenant ${slug}`))
}

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
  if (answer.status === 409) {
    // The response with the key was lost. Nobody has that key, so another one replaces it.
    const lost = (await listKeys(keys, principal.tenantId)).filter(
      ({ label, state }) => label === body.label && state === 'active',
    )
    for (const { id } of lost)
      await revokeKey(keys, principal, id, { label: body.label, reason: 'Its value was lost.' })
    if (lost.length > 0) return await createKey(keys, principal, body)
  }
  return createdApiKeySchema.parse(expectStatus(answer, 201, `create the demo key ${body.label}`))
}

async function ensureIntegrations(
  keys: SignedCaller,
  tenantId: string,
  { wanted, listed }: { readonly wanted: Scenario['keys']; readonly listed: readonly ApiKey[] },
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
    await revokeKey(keys, principal, id, { label, reason: 'The contract has ended.' })
  }
}

async function revokeKey(
  keys: SignedCaller,
  principal: typeof operator,
  id: string,
  { label, reason }: { readonly label: string; readonly reason: string },
): Promise<void> {
  const answer = await keys.call(principal, 'POST', `/api/v1/api-keys/${id}/revoke`, { body: { reason } })
  expectStatus(answer, 200, `revoke the demo key ${label}`)
}

const soonMs = 2_000

function expectStatus(
  { status, text, json }: { readonly status: number; readonly text: string; readonly json: unknown },
  expected: number,
  what: string,
): unknown {
  if (status === expected) return json
  throw new Error(`Could not ${what}. The answer was ${status}: ${text.slice(0, 500)}`)
}
