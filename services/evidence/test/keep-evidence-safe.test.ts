import { randomBytes, randomUUID } from 'node:crypto'
import { access, link, mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { problemSchema, receiptSchema } from '@postern/contracts'
import { startService } from '@postern/service-kit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDigester } from '../src/digest/digester.ts'
import { evidenceService } from '../src/service.ts'
import { makeEnvironment, sha256, spawnEvidence, startEvidence, upload, uploaded, uploader } from './support.ts'

const hour = 3600
const csv = { 'content-type': 'text/csv' }

describe('what an upload has left behind', () => {
  let service: Awaited<ReturnType<typeof startEvidence>>
  beforeAll(async () => {
    service = await startEvidence()
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

  test('goes at the next start when its bytes never all arrived, and stays while they still may', async () => {
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

  test('goes with the next upload of its tenant when no row names it', async () => {
    const principal = uploader()
    await leaveUndecided(principal.tenantId, 'orphan', 2 * hour)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(1)
    await uploaded(service.caller, principal, 'another')
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toEqual([
      join(sha256('another').slice(0, 2), sha256('another')),
    ])
  })

  test('keeps its bytes when a row names them', async () => {
    const principal = uploader()
    await uploaded(service.caller, principal, 'evidence')
    await leaveUndecided(principal.tenantId, 'evidence', 2 * hour)
    await uploaded(service.caller, principal, 'another')
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(2)
  })

  test('is left alone while its upload may still be under way, and by uploads of other tenants', async () => {
    const [principal, other] = [uploader(), uploader()]
    await leaveUndecided(principal.tenantId, 'young', 1)
    await leaveUndecided(other.tenantId, 'of the other', 2 * hour)
    await uploaded(service.caller, principal, 'another')
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toHaveLength(1)
    expect(await service.filesIn(`settling/${other.tenantId}`)).toHaveLength(1)
    expect(await service.filesIn(`blobs/${other.tenantId}`)).toHaveLength(1)
  })

  test('serves a new upload of the same bytes, whose row then keeps them', async () => {
    const principal = uploader()
    await leaveUndecided(principal.tenantId, 'again', 2 * hour)
    await uploaded(service.caller, principal, 'again')
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(1)
  })
})

describe('without a database', () => {
  test('an upload is 503, and its bytes stay out of sight until it is known that no row names them', async () => {
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
    const mended = await startService(
      evidenceService,
      { ...env, POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0' },
      { writeLog: () => undefined },
    )
    try {
      await uploaded(caller(mended.url), principal, 'b')
      expect(await readdir(join(blobDirectory, 'settling', principal.tenantId))).toEqual([])
    } finally {
      await mended.close()
      await database.drop()
    }
  })
})

describe('a process of its own', () => {
  test('answers 507 and keeps nothing where there is no room for the file', async () => {
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

  test('takes a large file without holding it in memory', async () => {
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
      // What is read and not yet collected; a body that is held would weigh all of its size.
      expect(peak - before).toBeLessThan((size / 2) * megabyte)
    } finally {
      await service.kill('SIGTERM')
      await database.drop()
    }
  })

  test('that is killed amid an upload has kept nothing of it when it is there again', async () => {
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

describe('where the thread that hashes ends', () => {
  const digester = openDigester()
  let service: Awaited<ReturnType<typeof startEvidence>>
  beforeAll(async () => {
    service = await startEvidence({}, { digester })
  })
  afterAll(async () => {
    await service.close()
    await digester.close()
  })

  /** Bytes of the upload that is under way. */
  const received = async () => {
    const [name = ''] = await service.filesIn('incoming')
    return (await stat(join(service.blobDirectory, 'incoming', name))).size
  }

  test('the upload is refused and nothing of it is kept, and the next one is taken', async () => {
    const principal = uploader()
    const mebibyte = Buffer.alloc(1024 * 1024, 'a')
    const body = Readable.from(
      (async function* blocks() {
        yield mebibyte
        // Its first half was hashed by the thread.
        await expect.poll(received).toBeGreaterThan(500_000)
        await digester.close()
        for (let sent = 0; sent < 4; sent += 1) yield mebibyte
      })(),
    )
    const answer = await upload(service.caller, principal, { body, headers: csv })
    expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(problemSchema.parse(answer.json)).toMatchObject({
      code: 'service_unavailable',
      detail: expect.stringContaining('There is no receipt'),
    })
    for (const folder of ['incoming', 'settling', 'blobs']) expect(await service.filesIn(folder)).toEqual([])
    expect(await service.rows('select from evidence.file')).toEqual([])
    const again = Buffer.alloc(3_000_000, 'b')
    expect(await uploaded(service.caller, principal, again)).toMatchObject({ sha256: sha256(again) })
  })
})
