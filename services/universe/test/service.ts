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

/** A universe service on a database of its own, and ways to speak to both. */
export interface UniverseUnderTest {
  readonly url: string
  /** Signs as the gateway. */
  readonly gateway: SignedCaller
  /** Signs as the sync service. */
  readonly sync: SignedCaller
  /** Signs as the evidence service. */
  readonly evidence: SignedCaller
  /** Signs as the findings service. */
  readonly findings: SignedCaller
  /** Signs as nobody whom the service knows. */
  readonly stranger: SignedCaller
  /** Pushes rows as the sync service. */
  push(tenant: Principal, entities: readonly object[]): Promise<CallAnswer>
  /** Pushes something else as the sync service: `path` below /internal/v1. */
  pushTo(tenant: Principal, path: string, body: object, headers?: Record<string, string>): Promise<CallAnswer>
  /** All entities of a tenant, by external_id. */
  stored(tenant: Principal): Promise<Record<string, Entity>>
  /** The headers of one signed request, to be sent by hand. */
  signedHeaders(principal: Principal, method: string, target: string): Record<string, string>
  /** What the service takes for today when it answers. Undefined: the real day. */
  setToday(day: string | undefined): void
  /** The database as the service's own role sees it. */
  readonly asService: TenantDb
  /** The database past row security. */
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

/** A tenant with a key that reads the universe. */
export function newTenant(scopes: readonly string[] = ['read:universe']): Principal {
  return { tenantId: crypto.randomUUID(), scopes }
}

/** The sync service at work for a tenant. */
export function syncOf({ tenantId }: Principal) {
  return { tenantId, kind: 'service', id: 'inline', label: 'Inline push', scopes: [] } as const
}

/** A row of a push; only what matters to a test is given. */
export function row(external_id: string, given: object = {}): object {
  return { external_id, name: `Entity ${external_id}`, type: 'process', ...given }
}

/** `findingsUrl`: who answers for the findings service; nobody where it is not given. */
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
      // The superuser fills tables; nothing else ends what a service began.
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

/** A node of a push; only what matters to a test is given. */
export function node(node_key: string, parent_key?: string, given: object = {}): object {
  return { node_key, ...(parent_key === undefined ? {} : { parent_key }), name: `Node ${node_key}`, ...given }
}

/** A push of the hierarchy `legal`. */
export function legal(nodes: readonly object[], given: object = {}): object {
  return { key: 'legal', name: 'Legal entities', kind: 'legal_entity', mode: 'full', nodes, ...given }
}

/** Where the next page of a list is. */
export function nextOf(link: string | undefined): string | undefined {
  return /^<([^>]+)>; rel="next"$/.exec(link ?? '')?.[1]
}
