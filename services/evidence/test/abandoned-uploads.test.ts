import { randomBytes, randomUUID } from 'node:crypto'
import { access, link, mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { problemSchema, receiptSchema } from '@postern/contracts'
import { startService } from '@postern/service-kit'
import { openTenantDb } from '@postern/tenant-db'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { evidenceService } from '../src/service.ts'
import {
  listFiles,
  makeEnvironment,
  sha256,
  spawnEvidence,
  startEvidence,
  upload,
  uploaded,
  uploader,
} from './support.ts'

const hour = 3600
const csv = { 'content-type': 'text/csv' }
const idOf = (target: string) => target.split('/').at(-1) ?? ''

describe('the remains of an upload', () => {
  let service: Awaited<ReturnType<typeof startEvidence>>
  beforeAll(async () => {
    service = await startEvidence({ POSTERN_EVIDENCE_SWEEP_MS: '1000' })
  })
  afterAll(async () => await service.close())

  /** The directory as a crash between the blob's placing and the commit leaves it. */
  async function leaveUndecided(tenantId: string, bytes: string, ageSeconds: number): Promise<void> {
    const digest = sha256(bytes)
    const settling = join(service.blobDirectory, 'settling', tenantId)
    const place = join(service.blobDirectory, 'blobs', tenantId, digest.slice(0, 2))
    await mkdir(settling, { recursive: true })
    await mkdir(place, { recursive: true })
    const entry = join(settling, `${digest}.${randomBytes(16).toString('hex')}`)
    await writeFile(entry, bytes)
    const at = Date.now() / 1000 - ageSeconds
    await utimes(entry, at, at)
    await rm(join(place, digest), { force: true })
    await link(entry, join(place, digest))
  }

  test('are deleted at the next start if bytes are missing, and stay while these may still arrive', async () => {
    const { env, blobDirectory, database } = await makeEnvironment()
    await mkdir(join(blobDirectory, 'incoming'), { recursive: true })
    for (const [name, age] of [
      ['old', 2 * hour],
      ['young', 1],
    ] as const) {
      const path = join(blobDirectory, 'incoming', name)
      await writeFile(path, 'half a file')
      await utimes(path, Date.now() / 1000 - age, Date.now() / 1000 - age)
    }
    const logs: string[] = []
    const restarted = await startService(evidenceService, env, { writeLog: (line) => void logs.push(line) })
    await restarted.close()
    await database.drop()
    expect(logs.join('')).toContain('"event":"incoming_swept","files":1')
    await expect(access(join(blobDirectory, 'incoming', 'old'))).rejects.toMatchObject({ code: 'ENOENT' })
    await access(join(blobDirectory, 'incoming', 'young'))
  })

  /** Until the sweep has decided over all that was left, for tenants that ask for nothing. */
  const settled = async (tenantId: string, left = 0) =>
    await vi.waitFor(async () => expect(await service.filesIn(`settling/${tenantId}`)).toHaveLength(left), {
      timeout: 20_000,
      interval: 50,
    })

  test('are deleted by a sweep if no row names them, even if the tenant sends no other request', async () => {
    const [principal, other] = [uploader(), uploader()]
    await uploaded(service.caller, other, 'orphan')
    await leaveUndecided(principal.tenantId, 'orphan', 2 * hour)
    await settled(principal.tenantId)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toEqual([])
    expect(await service.filesIn(`blobs/${other.tenantId}`)).toHaveLength(1)
  })

  test('stay if a row names their bytes', async () => {
    const principal = uploader()
    await uploaded(service.caller, principal, 'evidence')
    await leaveUndecided(principal.tenantId, 'evidence', 2 * hour)
    await settled(principal.tenantId)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(1)
  })

  test('stay while the upload may still be in progress', async () => {
    const principal = uploader()
    await leaveUndecided(principal.tenantId, 'young', 1)
    await leaveUndecided(principal.tenantId, 'old', 2 * hour)
    await settled(principal.tenantId, 1)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toEqual([
      join(sha256('young').slice(0, 2), sha256('young')),
    ])
  })

  test('wait for a concurrent upload of the same bytes, whose row then keeps them', async () => {
    const principal = uploader()
    const digest = sha256('again')
    const kept = await uploaded(service.caller, principal, 'kept')
    await service.holdLock(`evidence.blob:${principal.tenantId}:${digest}`, async (waiters) => {
      await leaveUndecided(principal.tenantId, 'again', 2 * hour)
      await vi.waitFor(async () => expect(await waiters()).toBeGreaterThan(0), { timeout: 20_000, interval: 50 })
      expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(2)
      // As an upload of the same bytes does under the lock.
      await service.rows(
        `insert into evidence.file (tenant_id, reference, file_name, content_type, size_bytes, sha256, test_procedures, scan,
           received_at, receipt_jws, created_by_type, created_by_id, created_by_label, retention_until)
         select tenant_id, 'EV-2026-999999', file_name, content_type, size_bytes, $2, test_procedures, scan,
           received_at, receipt_jws, created_by_type, created_by_id, created_by_label, retention_until from evidence.file where id = $1`,
        [kept.id, digest],
      )
    })
    await settled(principal.tenantId)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(2)
  })

  test('are decided equally by two replicas at once', async () => {
    const [principal, other] = [uploader(), uploader()]
    const all = Array.from({ length: 12 }, (_none, number) => `file ${number}`)
    for (const bytes of all.slice(0, 6)) await uploaded(service.caller, principal, bytes)
    for (const bytes of all) {
      await leaveUndecided(principal.tenantId, bytes, 2 * hour)
      await leaveUndecided(other.tenantId, bytes, 2 * hour)
    }
    const replica = await startService(evidenceService, service.env, { writeLog: () => undefined })
    await settled(principal.tenantId)
    await settled(other.tenantId)
    await replica.close()
    const named = all.slice(0, 6).map((bytes) => join(sha256(bytes).slice(0, 2), sha256(bytes)))
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toEqual(named.toSorted())
    expect(await service.filesIn(`blobs/${other.tenantId}`)).toEqual([])
  })

  test('in pieces are deleted if their upload is recorded or gone, and stay if it may continue', async () => {
    const principal = uploader()
    const uploads = '/api/v1/evidence/uploads'
    const tus = { 'tus-resumable': '1.0.0' }
    const begin = async () => {
      const headers = { ...tus, 'upload-length': '4', 'upload-metadata': 'filename YS5jc3Y=' }
      const answer = await service.caller.call(principal, 'POST', uploads, { headers })
      return answer.headers['location'] ?? ''
    }
    const send = async (target: string, offset: number, body: string) => {
      const headers = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) }
      return await service.caller.call(principal, 'PATCH', target, { body, headers })
    }
    const pieceOf = (id: string, turn: number) =>
      join(service.blobDirectory, 'partial', principal.tenantId, `${id}.${turn}`)
    const leave = async (id: string, turn: number) => {
      await writeFile(pieceOf(id, turn), 'ab')
      const at = Date.now() / 1000 - 2 * hour
      await utimes(pieceOf(id, turn), at, at)
    }
    const [open, recorded, gone] = [await begin(), await begin(), randomUUID()]
    expect(await send(open, 0, 'ab')).toMatchObject({ status: 204 })
    expect(await send(recorded, 0, 'abcd')).toMatchObject({ status: 204 })
    await leave(idOf(open), 1)
    await leave(idOf(recorded), 1)
    await leave(gone, 1)
    const left = async () => await service.filesIn(`partial/${principal.tenantId}`)
    await vi.waitFor(async () => expect(await left()).toEqual([`${idOf(open)}.1`]), { timeout: 20_000, interval: 50 })
    const last = await send(open, 2, 'cd')
    const receipt = decodeJwt(last.headers['postern-receipt'] ?? '')
    expect(receipt).toMatchObject({ sha256: sha256('abcd') })
  })

  test('only the evidence service can ask whether a tenant has a hash, and it learns yes or no', async () => {
    const [principal, other] = [uploader(), uploader()]
    const { id } = await uploaded(service.caller, principal, 'asked')
    const asking = async (role: 'evidence' | 'sync', text: string, values: readonly unknown[]) => {
      const db = openTenantDb({
        connectionString: service.database.url(role),
        maxConnections: 1,
        connectTimeoutMs: 60_000,
        queryTimeoutMs: 60_000,
        applicationName: 'evidence-test',
      })
      try {
        return await db.system(async (tx) => await tx.query({ text, values }))
      } finally {
        await db.close()
      }
    }
    const recorded = 'select evidence.blob_is_recorded($1, $2) as yes'
    const digest = sha256('asked')
    expect(await asking('evidence', recorded, [principal.tenantId, digest])).toEqual([{ yes: true }])
    expect(await asking('evidence', recorded, [other.tenantId, digest])).toEqual([{ yes: false }])
    expect(await asking('evidence', recorded, [principal.tenantId, sha256('another')])).toEqual([{ yes: false }])
    // This opens nothing else.
    await expect(asking('evidence', 'select from evidence.file where id = $1', [id])).rejects.toThrow('assertion')
    for (const text of [recorded, 'select evidence.upload_is_open($1, $2)'])
      await expect(asking('sync', text, [principal.tenantId, id])).rejects.toMatchObject({ code: '42501' })
    const columns = await service.rows(
      `select format('%s.%s', table_name, column_name) as may from information_schema.column_privileges
        where grantee = 'postern_evidence_definer' and privilege_type = 'SELECT' order by 1`,
    )
    expect(columns.map(({ may }) => may)).toEqual([
      'file.id',
      'file.sha256',
      'file.tenant_id',
      'file_decision.file_id',
      'file_decision.kind',
      'file_decision.tenant_id',
      'upload.expires_at',
      'upload.id',
      'upload.receipt_jws',
      'upload.tenant_id',
    ])
  })
})

describe('without a database', () => {
  test('an upload gets 503, and its bytes stay hidden until it is certain that no row names them', async () => {
    const { env, database, blobDirectory, caller } = await makeEnvironment()
    const broken = new URL(database.url('evidence'))
    broken.port = '1'
    const service = await startService(
      evidenceService,
      { ...env, POSTERN_DATABASE_URL: broken.href },
      { writeLog: () => undefined },
    )
    const principal = uploader()
    try {
      const answer = await upload(caller(service.url), principal, { body: 'a', headers: csv })
      expect(answer.status).toBe(503)
      expect(problemSchema.parse(answer.json).code).toBe('service_unavailable')
      expect(answer.headers['retry-after']).toBe('5')
      const ready = await fetch(`${service.url}/internal/health/ready`)
      expect(ready.status).toBe(503)
    } finally {
      await service.close()
    }
    const repaired = await startService(
      evidenceService,
      { ...env, POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0' },
      { writeLog: () => undefined },
    )
    try {
      const left = async () => await readdir(join(blobDirectory, 'settling', principal.tenantId))
      await vi.waitFor(async () => expect(await left()).toEqual([]), { timeout: 20_000, interval: 50 })
      expect(await listFiles(join(blobDirectory, 'blobs'))).toEqual([])
    } finally {
      await repaired.close()
      await database.drop()
    }
  })
})

describe('a separate process', () => {
  test('returns 507 and stores no bytes if the disk is full', async () => {
    const { env, database, caller } = await makeEnvironment()
    // Files of more than 512 blocks (of 512 or 1024 bytes) cannot be written: the same error path as a full disk.
    const service = await spawnEvidence(env, 512)
    try {
      const principal = uploader(randomUUID())
      const answer = await upload(caller(service.url), principal, { body: Buffer.alloc(2_000_000, 'a'), headers: csv })
      expect(answer).toMatchObject({ status: 507 })
      expect(problemSchema.parse(answer.json).code).toBe('insufficient_storage')
      const control = await upload(caller(service.url), principal, { body: Buffer.alloc(100_000, 'a'), headers: csv })
      expect(receiptSchema.parse(control.json).reference).toMatch(/-000001$/)
    } finally {
      await service.kill('SIGTERM')
      await database.drop()
    }
  })

  test('receives a large file without holding it in memory', async () => {
    const megabyte = 1024 * 1024
    const size = 256
    const { env, database, caller } = await makeEnvironment()
    const service = await spawnEvidence(env)
    const residentBytes = async () => {
      const text = await (await fetch(`${service.url}/internal/metrics`)).text()
      return Number(/^process_resident_memory_bytes\{[^}]*\} (\d+)/m.exec(text)?.[1])
    }
    try {
      await uploaded(caller(service.url), uploader(), 'warm up')
      const before = await residentBytes()
      let peak = before
      const chunk = randomBytes(megabyte)
      const body = Readable.from(
        (async function* produce() {
          for (let count = 0; count < size; count += 1) {
            if (count % 16 === 15) peak = Math.max(peak, await residentBytes())
            yield chunk
          }
        })(),
      )
      const answer = await upload(caller(service.url), uploader(), { body, headers: csv })
      expect(receiptSchema.parse(answer.json).size_bytes).toBe(size * megabyte)
      peak = Math.max(peak, await residentBytes())
      // Garbage that was not collected yet; a buffered body would cost its whole size.
      expect(peak - before).toBeLessThan((size / 2) * megabyte)
    } finally {
      await service.kill('SIGTERM')
      await database.drop()
    }
  })

  test('that is killed during an upload has none of its bytes after the restart', async () => {
    const { env, database, blobDirectory, caller } = await makeEnvironment()
    const first = await spawnEvidence(env)
    const principal = uploader()
    const body = new Readable({ read: () => undefined })
    body.push(Buffer.alloc(100_000, 'a'))
    const broken = upload(caller(first.url), principal, { body, headers: csv })
    broken.catch(() => undefined)
    while ((await readdir(join(blobDirectory, 'incoming'))).length === 0) await delay(5)
    await first.kill('SIGKILL')
    await expect(broken).rejects.toThrow(/socket|closed|ECONNRESET/)
    const second = await spawnEvidence({ ...env, POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0' })
    try {
      expect(await readdir(join(blobDirectory, 'incoming'))).toEqual([])
      const receipt = await uploaded(caller(second.url), principal, 'whole')
      expect(receipt.reference).toMatch(/-000001$/)
    } finally {
      await second.kill('SIGTERM')
      await database.drop()
    }
  })
})
