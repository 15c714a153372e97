import { type Entity, entitySchema, listEntities } from '@postern/contracts'
import {
  type CallAnswer,
  type SignedCaller,
  createTestCaller,
  createTestDatabase,
  servicePatience,
  randomRing,
  assertNoKeyInLine,
} from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { createSigner, mintAssertion, parseKeyRing, serializeContext } from '@postern/signed-context'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import { z } from 'zod'
import { universeService } from '../src/service.ts'

export interface UniverseUnderTest {
  readonly url: string
  readonly gateway: SignedCaller
  readonly sync: SignedCaller
  readonly evidence: SignedCaller
  readonly findings: SignedCaller
  /** Signs with an unknown key. */
  readonly stranger: SignedCaller
  push(tenant: Principal, entities: readonly object[]): Promise<CallAnswer>
  /** `path` is below /internal/v1. */
  pushTo(tenant: Principal, path: string, body: object, headers?: Record<string, string>): Promise<CallAnswer>
  stored(tenant: Principal): Promise<Record<string, Entity>>
  signedHeaders(principal: Principal, method: string, target: string): Record<string, string>
  /** Undefined: the real day. */
  setToday(day: string | undefined): void
  readonly asService: TenantDb
  /** Bypasses row-level security. */
  readonly asSuperuser: TenantDb
  assertionOf(tenantId: string): { readonly assertion: string }
  close(): Promise<void>
}

export interface Principal {
  readonly tenantId: string
  readonly scopes: readonly string[]
}

export const path = listEntities.path
export const pushPath = '/internal/v1/entities'
export const readEntities = z.array(entitySchema)

export function newTenant(scopes: readonly string[] = ['read:universe']): Principal {
  return { tenantId: crypto.randomUUID(), scopes }
}

export function syncOf({ tenantId }: Principal) {
  return { tenantId, kind: 'service', id: 'inline', label: 'Inline push', scopes: [] } as const
}

export function row(external_id: string, given: object = {}): object {
  return { external_id, name: `Entity ${external_id}`, type: 'process', ...given }
}

export async function startUniverse({
  findingsUrl = 'http://127.0.0.1:9',
}: { readonly findingsUrl?: string } = {}): Promise<UniverseUnderTest> {
  const database = await createTestDatabase()
  const rings = {
    universe: randomRing('universe'),
    sync: randomRing('sync'),
    evidence: randomRing('evidence'),
    findings: randomRing('findings'),
  }
  let day: string | undefined
  const service = await startService(
    universeService,
    {
      POSTERN_DATABASE_URL: database.url('universe'),
      POSTERN_SIGNING_UNIVERSE: rings.universe,
      POSTERN_SIGNING_SYNC_UNIVERSE: rings.sync,
      POSTERN_SIGNING_EVIDENCE_UNIVERSE: rings.evidence,
      POSTERN_SIGNING_FINDINGS_UNIVERSE: rings.findings,
      POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
      POSTERN_FINDINGS_URL: findingsUrl,
      POSTERN_REQUEST_LOG: 'off',
      POSTERN_CHECK_ANSWERS: 'on',
      ...servicePatience,
    },
    {
      overrides: { now: () => (day === undefined ? new Date() : new Date(`${day}T12:00:00Z`)) },
      writeLog: assertNoKeyInLine,
    },
  )
  const { assertionKeys } = database
  const callerWith = (keyName: string, ring: string) =>
    createTestCaller({ baseUrl: service.url, keyName, ring, assertionKeys })
  const gateway = callerWith('universe', rings.universe)
  const sync = callerWith('sync-universe', rings.sync)
  const evidence = callerWith('evidence-universe', rings.evidence)
  const findings = callerWith('findings-universe', rings.findings)
  const assertionOf = (tenantId: string) => ({
    assertion: mintAssertion(parseKeyRing(assertionKeys), tenantId, Date.now()),
  })
  const open = (role: 'universe' | 'superuser') =>
    openTenantDb({
      connectionString: database.url(role),
      maxConnections: 2,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 100_000,
      applicationName: 'universe-tests',
    })
  const asService = open('universe')
  const asSuperuser = open('superuser')
  return {
    url: service.url,
    gateway,
    sync,
    findings,
    evidence,
    stranger: callerWith('universe', randomRing('universe')),
    push: async (tenant, entities) =>
      await sync.call(syncOf(tenant), 'POST', pushPath, { body: { run_id: crypto.randomUUID(), entities } }),
    pushTo: async (tenant, to, body, headers = {}) =>
      await sync.call(syncOf(tenant), 'POST', `/internal/v1/${to}`, {
        body: { run_id: crypto.randomUUID(), ...body },
        headers,
      }),
    stored: async (tenant) => {
      const answer = await gateway.call(tenant, 'GET', `${path}?limit=1000`)
      const entities = readEntities.parse(answer.json)
      return Object.fromEntries(entities.map((entity) => [entity.external_id ?? entity.id, entity]))
    },
    signedHeaders: ({ tenantId, scopes }, method, target) => {
      const context = serializeContext({ tenantId, kind: 'api_key', id: 'k', label: 'A key', scopes, roles: [] })
      const { assertion } = assertionOf(tenantId)
      const requestId = crypto.randomUUID()
      const signed = createSigner(parseKeyRing(rings.universe), 'universe').sign(
        { method, target, context, assertion, requestId },
        Date.now(),
      )
      return {
        'postern-context': context,
        'postern-assertion': assertion,
        'x-request-id': requestId,
        'signature-input': signed.signatureInput,
        signature: signed.signature,
      }
    },
    setToday: (given) => {
      day = given
    },
    asService,
    asSuperuser,
    assertionOf,
    close: async () => {
      await service.close()
      await Promise.all([asService.close(), asSuperuser.close()])
      await database.drop()
    },
  }
}

export function node(node_key: string, parent_key?: string, given: object = {}): object {
  return { node_key, ...(parent_key === undefined ? {} : { parent_key }), name: `Node ${node_key}`, ...given }
}

export function legal(nodes: readonly object[], given: object = {}): object {
  return { key: 'legal', name: 'Legal entities', kind: 'legal_entity', mode: 'full', nodes, ...given }
}

export function nextOf(link: string | undefined): string | undefined {
  return /^<([^>]+)>; rel="next"$/.exec(link ?? '')?.[1]
}
