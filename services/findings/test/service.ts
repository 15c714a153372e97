import { generateKeyPairSync } from 'node:crypto'
import { type Finding, type createFindingBodySchema, findingSchema, listFindings } from '@postern/contracts'
import {
  type SignedCaller,
  assertNoKeyInLine,
  createTestCaller,
  createTestDatabase,
  servicePatience,
  randomRing,
} from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { createSigner, mintAssertion, parseKeyRing, serializeContext } from '@postern/signed-context'
import { type TenantDb, type Tx, openTenantDb } from '@postern/tenant-db'
import { z } from 'zod'
import type { Deps } from '../src/deps.ts'
import { type Evidence, openEvidence } from '../src/evidence/evidence.ts'
import { findingsService } from '../src/service.ts'
import { openUniverse } from '../src/universe/universe.ts'
import { type SpawnedUniverse, spawnUniverse } from './universe.ts'

/** A findings service with its own database, and clients of both. */
export interface FindingsUnderTest extends SignedCaller {
  readonly url: string
  /** Signs with an unknown key. */
  readonly stranger: SignedCaller
  readonly asUniverse: SignedCaller
  /** Returns the headers of one signed request whose assertion is `ago` seconds old. */
  signedHeaders(
    principal: Principal,
    method: string,
    target: string,
    ago?: number,
    json?: { readonly body: string; readonly idempotencyKey: string },
  ): Record<string, string>
  /** Sets the current day of the service. Undefined: the real day. */
  setToday(day: string | undefined): void
  /** The database with the service's role. */
  readonly asService: TenantDb
  /** The database without row-level security. */
  readonly asSuperuser: TenantDb
  readonly assertionKeys: string
  assertionOf(tenantId: string): { readonly assertion: string }
  readonly universe: SpawnedUniverse | undefined
  /** The references that the service looked up in other services. */
  readonly asked: readonly object[]
  readonly logs: string[]
  close(): Promise<void>
}

export interface Principal {
  readonly tenantId: string
  readonly scopes: readonly string[]
}

export const checkpointKey: string = generateKeyPairSync('ed25519')
  .privateKey.export({ format: 'pem', type: 'pkcs8' })
  .toString()

/**
 * Starts the findings service. `universe` also starts the real universe service. All references exist, unless `references`
 * makes the service look them up.
 */
export async function startFindings(
  options: {
    readonly universe?: true
    readonly references?: { readonly evidence?: Evidence }
  } = {},
): Promise<FindingsUnderTest> {
  const database = await createTestDatabase()
  const ring = randomRing('findings')
  const universeRing = randomRing('findings-universe')
  const evidenceRing = randomRing('findings-evidence')
  const countsRing = randomRing('universe-findings')
  const universe = options.universe === true ? await spawnUniverse(database, universeRing) : undefined
  const nowhere = 'http://127.0.0.1:9'
  const universeUrl = universe?.url ?? nowhere
  const asked: object[] = []
  const logs: string[] = []
  const askable = askableBy(options.references, {
    isReal: options.universe === true,
    universe: openUniverse({ url: universeUrl, ring: parseKeyRing(universeRing), timeoutMs: 20_000 }),
    evidence: openEvidence({ url: nowhere, ring: parseKeyRing(evidenceRing), timeoutMs: 20_000 }),
    asked,
  })
  let day: string | undefined
  const service = await startService(
    findingsService,
    {
      POSTERN_DATABASE_URL: database.url('findings'),
      POSTERN_SIGNING_FINDINGS: ring,
      POSTERN_SIGNING_FINDINGS_UNIVERSE: universeRing,
      POSTERN_SIGNING_FINDINGS_EVIDENCE: evidenceRing,
      POSTERN_SIGNING_UNIVERSE_FINDINGS: countsRing,
      POSTERN_UNIVERSE_URL: universeUrl,
      POSTERN_EVIDENCE_URL: nowhere,
      POSTERN_CHECKPOINT_KEY: checkpointKey,
      POSTERN_REQUEST_LOG: 'off',
      POSTERN_CHECK_ANSWERS: 'on',
      ...servicePatience,
    },
    {
      overrides: { ...askable, now: () => (day === undefined ? new Date() : new Date(`${day}T12:00:00Z`)) },
      writeLog: (line) => {
        assertNoKeyInLine(line)
        logs.push(line)
      },
    },
  )
  const { assertionKeys } = database
  const callerWith = (withRing: string, keyName = 'findings') =>
    createTestCaller({ baseUrl: service.url, keyName, ring: withRing, assertionKeys })
  const assertionOf = (tenantId: string) => ({
    assertion: mintAssertion(parseKeyRing(assertionKeys), tenantId, Date.now()),
  })
  const open = (role: 'findings' | 'superuser') =>
    openTenantDb({
      connectionString: database.url(role),
      maxConnections: 4,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 60_000,
      applicationName: 'findings-tests',
    })
  const asService = open('findings')
  const asSuperuser = open('superuser')
  return {
    url: service.url,
    call: callerWith(ring).call,
    stranger: callerWith(randomRing('findings')),
    asUniverse: callerWith(countsRing, 'universe-findings'),
    signedHeaders: ({ tenantId, scopes }, method, target, ago = 0, json) => {
      const context = serializeContext({ tenantId, kind: 'api_key', id: 'k', label: 'A key', scopes, roles: [] })
      const assertion = mintAssertion(parseKeyRing(assertionKeys), tenantId, Date.now() - ago * 1000)
      const requestId = crypto.randomUUID()
      const signed = createSigner(parseKeyRing(ring), 'findings').sign(
        {
          method,
          target,
          context,
          assertion,
          requestId,
          ...(json === undefined
            ? {}
            : {
                contentType: 'application/json',
                contentLength: String(Buffer.byteLength(json.body)),
                idempotencyKey: json.idempotencyKey,
              }),
        },
        Date.now(),
      )
      return {
        ...(json === undefined ? {} : { 'content-type': 'application/json', 'idempotency-key': json.idempotencyKey }),
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
    assertionKeys,
    assertionOf,
    universe,
    asked,
    logs,
    close: async () => {
      await service.close()
      await universe?.stop()
      await Promise.all([asService.close(), asSuperuser.close()])
      await database.drop()
    },
  }
}

function askableBy(
  references: { readonly evidence?: Evidence } | undefined,
  {
    isReal,
    universe,
    evidence,
    asked,
  }: Pick<Deps, 'universe' | 'evidence'> & { readonly isReal: boolean; readonly asked: object[] },
): Pick<Deps, 'universe' | 'evidence'> {
  const { evidence: files = evidence } = references ?? {}
  return {
    universe: {
      ...universe,
      // Without a universe, nobody is known.
      identify: async (request, texts) => (isReal ? await universe.identify(request, texts) : []),
      unknown: async (request, ids) => {
        asked.push(ids)
        return references === undefined
          ? { entity_ids: [], test_procedure_ids: [] }
          : await universe.unknown(request, ids)
      },
    },
    evidence: {
      unknown: async (request, refs) => {
        asked.push(refs)
        return references === undefined ? [] : await files.unknown(request, refs)
      },
    },
  }
}

export const readFindings = z.array(findingSchema)
export const path = listFindings.path

export function newTenant(scopes: readonly string[] = ['read:findings', 'write:findings']): Principal {
  return { tenantId: crypto.randomUUID(), scopes }
}

export function findingBody(given: Partial<z.input<typeof createFindingBodySchema>> = {}): object {
  return {
    title: 'Access is not recertified',
    condition: 'No recertification since January.',
    severity: 'high',
    ...given,
  }
}

/** Fields that an open finding also requires. */
export const completeFields = {
  criteria: 'Policy 4.2: every quarter.',
  cause: 'Nobody is charged with it.',
  consequence: 'Leavers keep their rights.',
  owner: { name: 'Ada Lund' },
  entity_ids: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0e1'],
}

export async function openFinding(service: FindingsUnderTest, tenant: Principal, given: object = {}): Promise<Finding> {
  const body = { ...findingBody(), ...completeFields, status: 'open', ...given }
  const answer = await service.call(tenant, 'POST', path, { body })
  return findingSchema.parse(answer.json)
}

/** Appends an entry with defaults to the log of a finding, in the same way as the service. */
export async function appendToLog(tx: Tx, tenantId: string, findingId: string, given: object): Promise<void> {
  await tx.execute({
    text: `insert into findings.tracker_log (tenant_id, finding_id, entry)
      select $1, $2, jsonb_build_object(
        'seq', coalesce(head.seq, 0) + 1, 'prev_hash', head.hash, 'finding_id', $2::uuid, 'kind', 'status_change',
        'actor', '{"type":"api_key","id":"k","label":"l"}'::jsonb, 'changes', '[]'::jsonb, 'evidence_refs', '[]'::jsonb,
        'occurred_at', now()::timestamptz(3), 'recorded_at', now()::timestamptz(3)) || $3::jsonb
      from (values (1)) as one (row)
      left join lateral (
        select l.seq, l.hash from findings.tracker_log l
        where l.tenant_id = $1 and l.finding_id = $2 order by l.seq desc limit 1
      ) as head on true`,
    values: [tenantId, findingId, JSON.stringify(given)],
  })
}

export async function closedFinding(
  service: FindingsUnderTest,
  tenant: Principal,
  given: object = {},
): Promise<Finding> {
  const finding = await openFinding(service, tenant, given)
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `update findings.finding set status = 'closed', closed_on = current_date, validated_by = '{"name":"Bo"}',
        version = version + 1 where id = $1`,
      values: [finding.id],
    })
  })
  return finding
}
