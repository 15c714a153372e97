import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listFiles, makeEnvironment, startEvidence, upload, uploader } from './support.ts'

const run = promisify(execFile)
const csv = { 'content-type': 'text/csv' }

/** A volume of its own of one MiB; undefined where this account may mount none. */
async function mountSmallVolume(): Promise<string | undefined> {
  const path = await mkdtemp(join(tmpdir(), 'postern-full-volume-'))
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path])
    return path
  } catch {
    await rm(path, { recursive: true })
    return undefined
  }
}

const volume = await mountSmallVolume()

afterAll(async () => {
  if (volume === undefined) return
  await run('umount', ['-l', volume])
  await rm(volume, { recursive: true })
})

describe.skipIf(volume === undefined)('a volume of evidence (needs the right to mount a tmpfs)', () => {
  let service: Awaited<ReturnType<typeof startEvidence>>
  const directory = volume ?? ''
  const filler = join(directory, 'filler')

  beforeAll(async () => {
    service = await startEvidence({ POSTERN_BLOB_DIRECTORY: directory })
  })
  afterAll(async () => await service.close())

  const gauge = async () => {
    const text = await (await fetch(`${service.url}/internal/metrics`)).text()
    return /^postern_evidence_store_writable\{[^}]*\} (\d)/m.exec(text)?.[1]
  }
  const readiness = async () => (await fetch(`${service.url}/internal/health/ready`)).status
  /** Takes all the room that is left. */
  const fill = async () => await writeFile(filler, Buffer.alloc(2_000_000)).catch(() => undefined)

  test('is reported as writable before the first readiness request', async () => {
    expect(await gauge()).toBe('1')
    expect(await readiness()).toBe(200)
  })

  test('makes the service not ready and the gauge 0 while it is full, and ready again afterwards', async () => {
    await fill()
    try {
      await expect.poll(readiness, { timeout: 30_000 }).toBe(503)
      expect(await gauge()).toBe('0')
      const answer = await upload(service.caller, uploader(), { body: Buffer.alloc(100_000, 'a'), headers: csv })
      expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([507, 'insufficient_storage'])
      expect(service.logs.join('')).toContain('"event":"store_unwritable"')
    } finally {
      await rm(filler)
    }
    await expect.poll(readiness, { timeout: 30_000 }).toBe(200)
    expect(await listFiles(join(directory, 'probe'))).toEqual([])
  })

  test('keeps the gauge at 0 if a probe fits but no upload does', async () => {
    const other = await startEvidence({ POSTERN_BLOB_DIRECTORY: directory })
    try {
      const metrics = async () => await (await fetch(`${other.url}/internal/metrics`)).text()
      expect(await metrics()).toContain('postern_evidence_store_writable{service="evidence"} 1')
      const body = Buffer.alloc(3_000_000, 'a')
      expect((await upload(other.caller, uploader(), { body, headers: csv })).status).toBe(507)
      expect(await metrics()).toContain('postern_evidence_store_writable{service="evidence"} 0')
      expect((await fetch(`${other.url}/internal/health/ready`)).status).toBe(200)
      expect(await metrics()).toContain('postern_evidence_store_writable{service="evidence"} 0')
    } finally {
      await other.close()
    }
  })
})

describe('PostgreSQL with a full disk', () => {
  let service: Awaited<ReturnType<typeof startEvidence>>
  beforeAll(async () => {
    service = await startEvidence({}, {}, await makeEnvironment())
  })
  afterAll(async () => await service.close())

  const fillTable = async (table: string) => {
    await service.rows(`create or replace function evidence.has_no_room() returns trigger language plpgsql
      as $$ begin raise exception 'no room' using errcode = '53100'; end $$`)
    await service.rows(`create trigger has_no_room before insert on ${table}
      for each row execute function evidence.has_no_room()`)
  }

  test.each(['evidence.file', 'evidence.custody_event', 'evidence.tenant_usage', 'evidence.idempotency_record'])(
    'an upload returns 507 while %s cannot grow, and succeeds afterwards',
    async (table) => {
      const principal = uploader()
      const headers = { ...csv, 'idempotency-key': `upload-${randomUUID()}` }
      await fillTable(table)
      try {
        const answer = await upload(service.caller, principal, { body: 'a,b', headers })
        expect([answer.status, answer.headers['retry-after']]).toEqual([507, '300'])
        expect(problemSchema.parse(answer.json).code).toBe('insufficient_storage')
      } finally {
        await service.rows('drop function evidence.has_no_room cascade')
      }
      expect((await upload(service.caller, principal, { body: 'a,b', headers })).status).toBe(201)
    },
  )
})
