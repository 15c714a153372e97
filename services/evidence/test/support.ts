import { createHash, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Receipt, receiptSchema } from '@postern/contracts'
import {
  type CallAnswer,
  type CallOptions,
  type Principal,
  type SignedCaller,
  createTestCaller,
  createTestDatabase,
  makeTestFolder,
  randomRing,
  spawnTestService,
  assertNoKeyInLine,
  servicePatience,
} from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { openTenantDb } from '@postern/tenant-db'
import { expect } from 'vitest'
import type { Deps } from '../src/deps.ts'
import { evidenceService } from '../src/service.ts'
import { spawnUniverse } from './universe.ts'

function makeReceiptKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
}

export async function makeEnvironment() {
  const database = await createTestDatabase()
  const ring = randomRing()
  const universeRing = randomRing()
  const findingsRing = randomRing()
  const blobDirectory = await makeTestFolder('blobs')
  const env: Record<string, string> = {
    POSTERN_DATABASE_URL: database.url('evidence'),
    POSTERN_SIGNING_EVIDENCE: ring,
    POSTERN_SIGNING_EVIDENCE_UNIVERSE: universeRing,
    POSTERN_SIGNING_FINDINGS_EVIDENCE: findingsRing,
    POSTERN_UNIVERSE_URL: 'http://127.0.0.1:9',
    POSTERN_BLOB_DIRECTORY: blobDirectory,
    POSTERN_RECEIPT_KEY: makeReceiptKey(),
    POSTERN_REQUEST_LOG: 'off',
    POSTERN_CHECK_ANSWERS: 'on',
    ...servicePatience,
  }
  return {
    database,
    blobDirectory,
    env,
    spawnUniverse: async () => await spawnUniverse(database, universeRing),
    caller: (baseUrl: string) =>
      createTestCaller({ baseUrl, keyName: 'evidence', ring, assertionKeys: database.assertionKeys }),
    asFindings: (baseUrl: string) =>
      createTestCaller({
        baseUrl,
        keyName: 'findings-evidence',
        ring: findingsRing,
        assertionKeys: database.assertionKeys,
      }),
  }
}

/** Starts an evidence service and a universe service. */
export async function startEvidenceWithUniverse(extra: Record<string, string> = {}, overrides: Partial<Deps> = {}) {
  const environment = await makeEnvironment()
  const universe = await environment.spawnUniverse()
  const service = await startEvidence({ POSTERN_UNIVERSE_URL: universe.url, ...extra }, overrides, environment)
  const close = async () => {
    await service.close()
    await universe.stop()
  }
  return { ...service, universe, close }
}

/** Starts an evidence service without a universe. */
export async function startEvidence(
  extra: Record<string, string> = {},
  overrides: Partial<Deps> = {},
  environment?: Awaited<ReturnType<typeof makeEnvironment>>,
) {
  const { database, blobDirectory, env, caller, asFindings } = environment ?? (await makeEnvironment())
  const logs: string[] = []
  const keepLine = (line: string): void => {
    assertNoKeyInLine(line)
    logs.push(line)
  }
  const service = await startService(evidenceService, { ...env, ...extra }, { writeLog: keepLine, overrides })
  const owner = openTenantDb({
    connectionString: database.url('superuser'),
    maxConnections: 2,
    connectTimeoutMs: 60_000,
    queryTimeoutMs: 60_000,
    applicationName: 'evidence-test',
  })
  return {
    env: { ...env, ...extra },
    url: service.url,
    caller: caller(service.url),
    asFindings: asFindings(service.url),
    database,
    logs,
    blobDirectory,
    /** Bypasses row-level security. */
    rows: async (text: string, values: readonly unknown[] = []) =>
      await owner.system(async (tx) => await tx.query<Record<string, unknown>>({ text, values })),
    /** Holds the lock while `work` runs. `waiters` counts those who wait for it. */
    holdLock: async (name: string, work: (waiters: () => Promise<number>) => Promise<void>) => {
      const waiters = async () => {
        const text = `select from pg_locks join pg_database on pg_database.oid = pg_locks.database
                       where locktype = 'advisory' and not granted and datname = current_database()`
        return (await owner.system(async (tx) => await tx.query({ text, values: [] }))).length
      }
      await owner.system(async (tx) => {
        await tx.query({ text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))', values: [name] })
        await work(waiters)
      })
    },
    filesIn: async (folder: string) => await listFiles(join(blobDirectory, folder)),
    stop: async () => {
      await service.close()
      await owner.close()
    },
    close: async () => {
      await service.close()
      await owner.close()
      await database.drop()
    },
  }
}

/** `fileBlocks` limits the size of its files (`ulimit -f`). */
export async function spawnEvidence(env: Record<string, string>, fileBlocks?: number) {
  return await spawnTestService('evidence', env, { fileBlocks })
}

export function uploader(tenantId: string = randomUUID()): Principal {
  return { tenantId, scopes: ['write:evidence'] }
}

export async function uploaded(
  caller: SignedCaller,
  principal: Principal,
  body: string | Buffer,
  name = 'a.csv',
): Promise<Receipt> {
  const answer = await upload(caller, principal, { body, headers: { 'content-type': 'text/csv' } }, name)
  expect(answer).toMatchObject({ status: 201 })
  return receiptSchema.parse(answer.json)
}

export async function upload(
  caller: SignedCaller,
  principal: Principal,
  options: CallOptions,
  name = 'a.csv',
): Promise<CallAnswer> {
  return await caller.call(principal, 'POST', `/api/v1/evidence?file_name=${encodeURIComponent(name)}`, options)
}

/** Returns random bytes that no other file has and that do not start like a program or page. */
export function anyBytes(length: number): Buffer {
  const bytes = randomBytes(length)
  bytes[0] = 'a'.charCodeAt(0)
  return bytes
}

export const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
export const contentDigest = (bytes: string | Buffer) =>
  `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`

export async function listFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true }).catch(() => [])
  const files: string[] = []
  for (const entry of entries) {
    const found = await stat(join(directory, entry)).catch(() => undefined)
    if (found?.isFile() === true) files.push(entry)
  }
  return files.toSorted()
}
