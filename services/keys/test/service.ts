import { type ApiKey, type Enforcement, apiKeySchema, createdApiKeySchema, enforcementSchema } from '@postern/contracts'
import {
  internalPaths,
  leaseAnswerSchema,
  leaseMs,
  lookupsAnswerSchema,
  tenantSchema,
} from '@postern/contracts/internal'
import {
  type CallAnswer,
  type CallOptions,
  type Principal,
  createTestCaller,
  createTestDatabase,
  operator,
  servicePatience,
  randomRing,
  assertNoKeyInLine,
} from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { mintAssertion, nilTenantId, parseKeyRing } from '@postern/signed-context'
import { type Statement, type TenantDb, openTenantDb, sqlError } from '@postern/tenant-db'
import { vi } from 'vitest'
import { keysService } from '../src/service.ts'

type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'

export interface KeysUnderTest {
  readonly url: string
  readonly cacheMac: string
  readonly databaseUrl: string
  call(principal: Principal, method: Method, target: string, options?: CallOptions): Promise<CallAnswer>
  readonly sign: ReturnType<typeof createTestCaller>['sign']
  operate(method: Method, target: string, options?: CallOptions): Promise<CallAnswer>
  ask(target: string, body: unknown): Promise<CallAnswer>
  /** Signs with an unknown key. */
  readonly stranger: ReturnType<typeof createTestCaller>
  /** The database as the service's role, and as the superuser. */
  readonly asService: TenantDb
  readonly asSuperuser: TenantDb
  assertionOf(tenantId: string): { readonly assertion: string }
  readonly log: readonly string[]
  /** Starts a second replica on the same database, closed with the first. */
  startReplica(): Promise<KeysUnderTest['ask']>
  close(): Promise<void>
}

/** `cacheTimeoutMs`: the time limit of Redis commands. `env`: more settings. */
export async function startKeys({
  redisUrl,
  cacheTimeoutMs,
  env = {},
}: {
  readonly redisUrl?: string
  readonly cacheTimeoutMs?: number
  readonly env?: Readonly<Record<string, string>>
} = {}): Promise<KeysUnderTest> {
  const database = await createTestDatabase()
  const { assertionKeys } = database
  const rings = { keys: randomRing('keys'), operator: randomRing('operator'), internal: randomRing('internal') }
  const cacheMac = randomRing('cache')
  const log: string[] = []
  const keepLine = (line: string): void => {
    assertNoKeyInLine(line)
    log.push(line)
  }
  const start = async () =>
    await startService(
      cacheTimeoutMs === undefined ? keysService : withCacheTimeout(cacheTimeoutMs),
      {
        POSTERN_DATABASE_URL: database.url('keys'),
        POSTERN_SIGNING_KEYS: rings.keys,
        POSTERN_SIGNING_OPERATOR: rings.operator,
        POSTERN_INTERNAL_SIGNING_KEYS: rings.internal,
        POSTERN_CACHE_SIGNING_KEYS: cacheMac,
        POSTERN_CHECK_ANSWERS: 'on',
        ...servicePatience,
        POSTERN_LOG_LEVEL: 'trace',
        ...env,
        ...(redisUrl === undefined ? {} : { POSTERN_REDIS_URL: redisUrl }),
      },
      { writeLog: keepLine },
    )
  const running = [await start()]
  const url = running[0]?.url ?? ''
  const callerOf = (keyName: string, ring: string, baseUrl = url) =>
    createTestCaller({ baseUrl, keyName, ring, assertionKeys })
  const open = (role: 'keys' | 'superuser') =>
    openTenantDb({
      connectionString: database.url(role),
      maxConnections: 4,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 60_000,
      applicationName: 'keys-tests',
    })
  const asService = open('keys')
  const asSuperuser = open('superuser')
  const asPerson = callerOf('keys', rings.keys)
  const operatorCaller = callerOf('operator', rings.operator)
  const askAt = (baseUrl: string): KeysUnderTest['ask'] => {
    const caller = callerOf('internal', rings.internal, baseUrl)
    return async (target, body) => await caller.call(gatewayPrincipal, 'POST', target, { body })
  }
  return {
    url,
    cacheMac,
    databaseUrl: database.url('keys'),
    call: asPerson.call,
    sign: asPerson.sign,
    operate: async (method, target, options) => await operatorCaller.call(operator, method, target, options),
    ask: askAt(url),
    stranger: callerOf('keys', randomRing('keys')),
    asService,
    asSuperuser,
    assertionOf: (tenantId) => ({ assertion: mintAssertion(parseKeyRing(assertionKeys), tenantId, Date.now()) }),
    log,
    startReplica: async () => {
      const replica = await start()
      running.push(replica)
      return askAt(replica.url)
    },
    close: async () => {
      for (const service of running) await service.close()
      await Promise.all([asService.close(), asSuperuser.close()])
      await database.drop()
    },
  }
}

function withCacheTimeout(commandTimeoutMs: number): typeof keysService {
  return {
    ...keysService,
    openDeps: async ({ cache, ...config }, base) =>
      await keysService.openDeps({ ...config, cache: cache && { ...cache, commandTimeoutMs } }, base),
  }
}

export const gatewayPrincipal: Principal = { tenantId: nilTenantId, kind: 'service', id: 'gateway', label: '' }
export const path = '/api/v1/api-keys'

export async function newTenant(service: KeysUnderTest): Promise<Principal & { readonly slug: string }> {
  const slug = `t${crypto.randomUUID()}`
  const answer = await service.operate('POST', internalPaths.tenants, { body: { slug, name: 'A tenant' } })
  if (answer.status !== 201) throw new Error(`no tenant was made: ${answer.text} ${service.log.at(-2)}`)
  return { ...administratorOf(tenantSchema.parse(answer.json).id), slug }
}

export function administratorOf(tenantId: string): Principal {
  return { tenantId, kind: 'user', id: 'ada', label: 'Ada Lund', roles: ['admin'] }
}

export function keyBody(given: object = {}): object {
  return { label: 'Nightly export', expires_in: '90d', scopes: ['read:findings'], ...given }
}

/** Creates a key. Returns its value, its representation and its hash. */
export async function newKey(service: KeysUnderTest, admin: Principal, given: object = {}) {
  const answer = await service.call(admin, 'POST', path, { body: keyBody(given) })
  if (answer.status !== 201) throw new Error(`no key was made: ${answer.text}`)
  const { key, ...shown } = createdApiKeySchema.parse(answer.json)
  return { ...shown, value: key, hash: await sha256(key), etag: answer.headers['etag'] ?? '' }
}

export async function sha256(text: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('hex')
}

export async function getKey(service: KeysUnderTest, admin: Principal, id: string): Promise<ApiKey> {
  return apiKeySchema.parse((await service.call(admin, 'GET', `${path}/${id}`)).json)
}

/** Revokes a key. Returns the answer with its enforcement. */
export async function revoke(service: KeysUnderTest, admin: Principal, id: string, body: unknown = {}) {
  const answer = await service.call(admin, 'POST', `${path}/${id}/revoke`, { body })
  return { ...answer, enforcement: readEnforcement(answer) }
}

export function readEnforcement({ json }: CallAnswer): Enforcement | null | undefined {
  if (typeof json !== 'object' || json === null || !('enforcement' in json)) return undefined
  return json.enforcement === null ? null : enforcementSchema.parse(json.enforcement)
}

export async function eventTypes(service: KeysUnderTest, admin: Principal, id: string): Promise<string[]> {
  const { json } = await service.call(admin, 'GET', `${path}/${id}/events`)
  return Array.isArray(json) ? json.map((event: { type: string }) => event.type) : []
}

export async function lookUp(service: KeysUnderTest, hash: string) {
  const { records, now } = lookupsAnswerSchema.parse(
    (await service.ask(internalPaths.lookupKeys, { hashes: [hash] })).json,
  )
  return { record: records[0] ?? null, now }
}

/** A gateway that only holds a lease. It renews and applies entries when the test says so. */
export class LeaseHolder {
  readonly gateway: string = crypto.randomUUID()
  cursor: number | null = null
  mark: string | null = null
  readonly #ask: KeysUnderTest['ask']

  constructor(ask: KeysUnderTest['ask']) {
    this.#ask = ask
  }

  /** Renews and applies the answer, unless `apply` is false. */
  async renew({ apply = true }: { apply?: boolean } = {}) {
    const { gateway, cursor, mark } = this
    const { json } = await this.#ask(internalPaths.leases, { gateway, name: 'test', cursor, mark })
    const answer = leaseAnswerSchema.parse(json)
    if (!apply) return answer
    this.cursor = answer.cursor
    this.mark = answer.mark
    return answer
  }

  /** Catches up and acquires a lease. */
  async take(): Promise<this> {
    await this.renew()
    for (let attempt = 0; attempt < 100; attempt += 1) if ((await this.renew()).granted) return this
    throw new Error('no lease was granted')
  }

  async release(): Promise<void> {
    await this.#ask(internalPaths.releaseLease, { gateway: this.gateway })
  }
}

/**
 * Runs `play` again if the machine was busy for as long as a lease lasts, because leases then end by chance. Earlier
 * failures count.
 */
export async function whileLeased(play: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const begun = performance.now()
    try {
      await play()
      return
    } catch (error) {
      if (performance.now() - begun < leaseMs || attempt === 5) throw error
    }
  }
}

/** Repeats a change that is unconfirmed because the machine was busy for half a second after the leases ended. */
export async function retryWhileUnconfirmed<T extends CallAnswer>(change: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await change()
    if (answer.status !== 503 || !answer.text.includes('revocation_unconfirmed') || attempt === 5) return answer
  }
}

/** Repeats something until a promise has settled. Returns the result of the promise. */
export async function during<T>(work: Promise<T>, again: () => Promise<unknown>): Promise<T> {
  const state = { isSettled: false }
  const settled = work.finally(() => {
    state.isSettled = true
  })
  while (!state.isSettled) await again()
  return await settled
}

export async function failureOf(work: Promise<unknown>) {
  return await work.then(
    () => undefined,
    (error: unknown) => sqlError(error),
  )
}

export function sql(text: string, ...values: readonly unknown[]): Statement {
  return { text, values }
}

/** Cancels the statement of the service that waits for a lock, as PostgreSQL itself does when the wait takes too long. */
export async function cancelWaiting({ asSuperuser }: Pick<KeysUnderTest, 'asSuperuser'>): Promise<void> {
  const cancel = sql(`
    select pg_cancel_backend(a.pid)
      from pg_stat_activity as a
     where a.datname = current_database() and a.application_name = 'postern-keys' and a.wait_event_type = 'Lock'`)
  await vi.waitUntil(async () => (await asSuperuser.system(async (tx) => await tx.query(cancel))).length > 0, {
    timeout: 60_000,
  })
}
