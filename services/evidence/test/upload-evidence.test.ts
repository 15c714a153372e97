/**
 * @promise Data: Keys cannot read evidence back, and the receipt proves what was uploaded.
 * @alsoShownBy services/evidence/test/abandoned-uploads.test.ts
 */

import { randomBytes, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { type Receipt, problemSchema, receiptSchema } from '@postern/contracts'
import { createTestCaller, randomRing } from '@postern/local-stack/testing'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { openTenantDb } from '@postern/tenant-db'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  contentDigest,
  sha256,
  startEvidence,
  startEvidenceWithUniverse,
  upload,
  uploaded,
  uploader,
} from './support.ts'

let service: Awaited<ReturnType<typeof startEvidenceWithUniverse>>
/** One that soon loses patience with a sender. The others must not feel it on a busy machine. */
let hasty: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  service = await startEvidenceWithUniverse({ POSTERN_EVIDENCE_MAX_BYTES: '1048576' })
  hasty = await startEvidence({ POSTERN_EVIDENCE_STALL_MS: '500' })
})
afterAll(async () => {
  await service.close()
  await hasty.close()
})

const codeOf = (answer: { json: unknown }) => problemSchema.parse(answer.json).code
const csv = { 'content-type': 'text/csv' }

async function expectNothingKept(tenantId: string): Promise<void> {
  for (const at of [service, hasty]) {
    // A client that broke off knows of it before the service does.
    await vi.waitFor(async () => expect(await at.filesIn('incoming')).toEqual([]), { timeout: 30_000 })
    expect(await at.filesIn(`settling/${tenantId}`)).toEqual([])
    expect(await at.filesIn(`blobs/${tenantId}`)).toEqual([])
    expect(await at.rows('select from evidence.file where tenant_id = $1', [tenantId])).toEqual([])
  }
}

describe('an upload is rejected and leaves no bytes', () => {
  let principal = uploader()
  afterEach(async () => {
    await expectNothingKept(principal.tenantId)
    principal = uploader()
  })

  // Clients that cannot send a file write the text of an object, or its JSON.
  test.each(['{}', 'null', 'undefined', '[object Object]', '[object File]', '[object Blob]'])(
    'with the body %s instead of the file',
    async (body) => {
      const answer = await upload(service.caller, principal, { body, headers: { 'content-type': 'application/json' } })
      expect([answer.status, codeOf(answer)]).toEqual([422, 'invalid_content'])
      expect(problemSchema.parse(answer.json).detail).toBe(
        `The client sent \`${body}\` instead of the file. Send the bytes of the file.`,
      )
    },
  )

  test('without the signature of the gateway', async () => {
    const answer = await fetch(`${service.url}/api/v1/evidence?file_name=a.csv`, { method: 'POST', body: 'a' })
    expect(answer.status).toBe(401)
  })

  test('with a signature made with another secret', async () => {
    const stranger = createTestCaller({
      baseUrl: service.url,
      keyName: 'evidence',
      ring: randomRing(),
      assertionKeys: service.database.assertionKeys,
    })
    const answer = await upload(stranger, principal, { body: 'a', headers: csv })
    expect([answer.status, codeOf(answer)]).toEqual([401, 'unsigned_request'])
  })

  test.each(['read:findings', 'read:universe', 'write:findings', 'admin:sync'])('with the scope %s', async (scope) => {
    const answer = await upload(service.caller, { ...principal, scopes: [scope] }, { body: 'a', headers: csv })
    expect(answer.status).toBe(403)
    expect(problemSchema.parse(answer.json)).toMatchObject({
      code: 'insufficient_scope',
      required_scope: 'write:evidence',
    })
  })

  test.each([
    ['no file name', ''],
    ['a path as file name', '?file_name=..%2Fa.csv'],
    ['a file name with a line break', '?file_name=a%0Ab.csv'],
    ['a file name that is turned around', '?file_name=a%E2%80%AEfdp.csv'],
    ['a file name with a mark that turns', '?file_name=a%E2%80%8Fb.csv'],
    ['a file name with what is not to be seen', '?file_name=a%E2%80%8Bb.csv'],
    ['a file name with a soft hyphen', '?file_name=a%C2%ADb.csv'],
    ['a file name with letters that nobody sees', '?file_name=a.csv%F3%A0%81%A5'],
    ['a file name with a separator of lines', '?file_name=a%E2%80%A8b.csv'],
    ['a file name of dots', '?file_name=...'],
    ['a file name that is a device', '?file_name=CON.csv'],
    ['a file name of 256 characters', `?file_name=${'a'.repeat(256)}`],
    ['a path of Windows', '?file_name=C%3A%5Ca.csv'],
    ['two file names', '?file_name=a.csv&file_name=b.csv'],
    ['an unknown parameter', '?file_name=a.csv&tenant_id=x'],
    ['a test procedure with a control character', '?file_name=a.csv&test_procedure=a%00'],
  ])('with %s', async (_what, query) => {
    const answer = await service.caller.call(principal, 'POST', `/api/v1/evidence${query}`, { body: 'a', headers: csv })
    expect([answer.status, codeOf(answer)]).toEqual([400, 'bad_request'])
  })

  test('with a Content-Digest that cannot be checked', async () => {
    const answer = await upload(service.caller, principal, {
      body: 'a',
      headers: { ...csv, 'content-digest': 'sha-512=:AAAA:' },
    })
    expect([answer.status, codeOf(answer)]).toEqual([400, 'bad_request'])
  })

  test('with a Content-Length above the limit, before all of it has arrived', async () => {
    const body = new Readable({ read: () => undefined })
    body.push(Buffer.alloc(1, 'a'))
    const answer = await upload(service.caller, principal, { body, headers: { ...csv, 'content-length': '1048577' } })
    expect([answer.status, codeOf(answer)]).toEqual([413, 'content_too_large'])
    body.destroy()
  })

  test('larger than the limit when its length is not announced', async () => {
    const body = Readable.from([Buffer.alloc(1_000_000, 'a'), Buffer.alloc(100_000, 'a')])
    const answer = await upload(service.caller, principal, { body, headers: csv })
    expect([answer.status, codeOf(answer)]).toEqual([413, 'content_too_large'])
  })

  test.each([
    [
      'a program',
      'report.pdf',
      'application/pdf',
      Buffer.concat([Buffer.from('7f454c4602010100', 'hex'), Buffer.alloc(64)]),
    ],
    ['a web page', 'report.txt', 'text/plain', Buffer.from('<!doctype html><script>alert(1)</script>')],
    ['a script', 'report.txt', 'text/plain', Buffer.from('#!/bin/sh\necho')],
    ['SVG by its declared type', 'chart', 'image/svg+xml', Buffer.from('anything')],
    ['an ending that runs, before the name of a stream', 'report.exe:a.txt', 'text/plain', Buffer.from('text')],
    ['an ending that runs', 'report.pdf.exe', 'application/pdf', Buffer.from('%PDF-1.7')],
    ['an invalid media type', 'report.pdf', 'pdf', Buffer.from('%PDF-1.7')],
  ])('as %s', async (_what, name, type, body) => {
    const answer = await upload(service.caller, principal, { body, headers: { 'content-type': type } }, name)
    expect([answer.status, codeOf(answer)]).toEqual([415, 'unsupported_media_type'])
  })

  test('as a program, before all of it has arrived', async () => {
    const body = new Readable({ read: () => undefined })
    body.push(Buffer.concat([Buffer.from('7f454c4602010100', 'hex'), randomBytes(100_000)]))
    const answer = await upload(service.caller, principal, { body, headers: csv })
    expect([answer.status, codeOf(answer)]).toEqual([415, 'unsupported_media_type'])
    body.destroy()
  })

  test('with a Content-Encoding', async () => {
    const answer = await upload(service.caller, principal, {
      body: 'a',
      headers: { ...csv, 'content-encoding': 'gzip' },
    })
    expect([answer.status, codeOf(answer)]).toEqual([415, 'unsupported_media_type'])
  })

  test.each([
    ['with a length of 0', { body: Buffer.alloc(0), headers: csv }],
    ['that is not there', { headers: { 'content-length': '0' } }],
  ])('with a body %s', async (_what, options) => {
    const answer = await upload(service.caller, principal, options)
    expect([answer.status, codeOf(answer)]).toEqual([422, 'invalid_content'])
  })

  test.each([
    ['a Content-Digest', { 'content-digest': contentDigest('other bytes') }],
    ['a Repr-Digest', { 'repr-digest': contentDigest('other bytes') }],
    [
      'two digests, one',
      { 'content-digest': contentDigest('these bytes'), 'repr-digest': contentDigest('other bytes') },
    ],
  ])('with %s that is not that of its bytes', async (_what, digests) => {
    const answer = await upload(service.caller, principal, { body: 'these bytes', headers: { ...csv, ...digests } })
    expect([answer.status, codeOf(answer)]).toEqual([422, 'digest_mismatch'])
  })

  test('if the sender disconnects', async () => {
    const body = Readable.from(
      (async function* breakOff() {
        yield Buffer.alloc(100_000, 'a')
        await expect.poll(async () => await service.filesIn('incoming')).toHaveLength(1)
        throw new Error('the sender breaks off')
      })(),
    )
    await expect(upload(service.caller, principal, { body, headers: csv })).rejects.toThrow('breaks off')
  })

  test('if the sender stalls', async () => {
    const body = new Readable({ read: () => undefined })
    body.push(Buffer.alloc(1000, 'a'))
    await expect(upload(hasty.caller, principal, { body, headers: csv })).rejects.toThrow(/socket|closed/)
  })
})

describe('an upload', () => {
  test('is answered with a receipt of exactly its bytes', async () => {
    const body = Buffer.from('%PDF-1.7\naccess review')
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1', 'SOX-7'])
    const answer = await service.caller.call(
      principal,
      'POST',
      '/api/v1/evidence?file_name=u%CC%88bersicht.pdf&test_procedure=ref:TP-0001&test_procedure=ext:SOX-7',
      { body, headers: { 'content-type': 'application/pdf', 'content-digest': contentDigest(body) } },
    )
    expect(answer).toMatchObject({ status: 201 })
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(receiptSchema.parse(answer.json)).toMatchObject({
      reference: `EV-${new Date().getUTCFullYear()}-000001`,
      file_name: 'übersicht.pdf',
      content_type: 'application/pdf',
      detected_content_type: 'application/pdf',
      size_bytes: body.length,
      sha256: sha256(body),
      test_procedures: ['ref:TP-0001', 'ext:SOX-7'],
      scan: 'not_configured',
    })
  })

  test('can contain any bytes, up to the limit', async () => {
    const principal = uploader()
    for (const size of [1, 4099, 4100, 4101, 1_048_576]) {
      const body = Buffer.alloc(size, 'x')
      expect(await uploaded(service.caller, principal, body)).toMatchObject({ size_bytes: size, sha256: sha256(body) })
    }
  })

  test('can arrive without its length', async () => {
    const body = Readable.from([Buffer.from('half '), Buffer.from('and half')])
    const answer = await upload(service.caller, uploader(), { body, headers: csv })
    expect(receiptSchema.parse(answer.json)).toMatchObject({ size_bytes: 13, sha256: sha256('half and half') })
  })

  test('has a receipt that anyone can check with the published keys', async () => {
    const receipt = await uploaded(service.caller, uploader(), 'a,b\n')
    const answer = await service.caller.call(
      { tenantId: '00000000-0000-0000-0000-000000000000', kind: 'service', id: 'gateway', label: '' },
      'GET',
      '/.well-known/jwks.json',
    )
    expect(answer).toMatchObject({ status: 200 })
    expect(answer.text).not.toContain('"d"')
    const keys = createLocalJWKSet(JSON.parse(answer.text))
    const { payload, protectedHeader } = await compactVerify(receipt.jws, keys)
    const { jws, ...content } = receipt
    expect(JSON.parse(Buffer.from(payload).toString())).toEqual(content)
    expect(protectedHeader).toMatchObject({ alg: 'EdDSA', typ: 'postern-receipt' })

    const forged = Buffer.from(JSON.stringify({ ...content, size_bytes: 1 })).toString('base64url')
    const [header, , signature] = jws.split('.')
    await expect(compactVerify(`${header}.${forged}.${signature}`, keys)).rejects.toThrow('signature')
  })

  test('stores its bytes in the tenant’s folder, and a row with its sender', async () => {
    const principal = { ...uploader(), id: 'key-7', label: 'Evidence robot' }
    const receipt = await uploaded(service.caller, principal, 'robot')
    const digest = sha256('robot')
    const path = join(service.blobDirectory, 'blobs', principal.tenantId, digest.slice(0, 2), digest)
    expect(await readFile(path, 'utf8')).toBe('robot')
    expect(await service.filesIn('incoming')).toEqual([])
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
    const events = await service.rows(
      'select file_id, kind, actor_type, actor_id, actor_label from evidence.custody_event where tenant_id = $1 order by id',
      [principal.tenantId],
    )
    expect(events).toEqual(
      ['received', 'hashed'].map((kind) => ({
        file_id: receipt.id,
        kind,
        actor_type: 'api_key',
        actor_id: 'key-7',
        actor_label: 'Evidence robot',
      })),
    )
  })

  test('of bytes that the tenant already has is a new file that shares them', async () => {
    const principal = uploader()
    const first = await uploaded(service.caller, principal, 'the same', 'march.csv')
    const second = await uploaded(service.caller, principal, 'the same', 'april.csv')
    expect(second.id).not.toBe(first.id)
    expect(second.reference).not.toBe(first.reference)
    expect(second.sha256).toBe(first.sha256)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(1)
  })

  test('gets a unique reference, even among many concurrent uploads', async () => {
    const principal = uploader()
    const receipts = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => await uploaded(service.caller, principal, `bytes ${index % 4}`)),
    )
    expect(new Set(receipts.map(({ reference }) => reference)).size).toBe(20)
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(4)
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
  })

  test('waits while a sweep decides about the same bytes', async () => {
    const principal = uploader()
    const digest = sha256('decided over')
    const waiting: Promise<Receipt>[] = []
    await service.holdLock(`evidence.blob:${principal.tenantId}:${digest}`, async (waiters) => {
      waiting.push(uploaded(service.caller, principal, 'decided over'))
      await expect.poll(waiters).toBe(1)
      expect(await service.filesIn(`blobs/${principal.tenantId}`)).toEqual([])
    })
    expect(await Promise.all(waiting)).toMatchObject([{ sha256: digest }])
  })

  test('cannot be read back with any method', async () => {
    const principal = uploader()
    const { id } = await uploaded(service.caller, principal, 'secret')
    for (const target of ['/api/v1/evidence', `/api/v1/evidence/${id}`]) {
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE'] as const) {
        const answer = await service.caller.call(principal, method, target)
        expect([method, target, answer.status]).toEqual([method, target, 404])
      }
    }
  })
})

describe('tenants', () => {
  test('with the same bytes each have their own copy, reference and row', async () => {
    const [one, other] = [uploader(), uploader()]
    const first = await uploaded(service.caller, one, 'shared bytes')
    const second = await uploaded(service.caller, other, 'shared bytes')
    expect(second.reference).toBe(first.reference)
    expect(second.id).not.toBe(first.id)
    for (const { tenantId } of [one, other]) {
      expect(await service.filesIn(`blobs/${tenantId}`)).toEqual([join(first.sha256.slice(0, 2), first.sha256)])
    }
  })

  test('see only their own rows, even if a statement names another tenant', async () => {
    const [one, other] = [uploader(), uploader()]
    await uploaded(service.caller, one, 'one')
    await uploaded(service.caller, other, 'other')
    const db = openTenantDb({
      connectionString: service.database.url('evidence'),
      maxConnections: 1,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 60_000,
      applicationName: 'evidence-test',
    })
    try {
      const assertion = mintAssertion(parseKeyRing(service.database.assertionKeys), one.tenantId, Date.now())
      const tenantsOf = async (table: string) =>
        await db.read({ assertion }, async (tx) =>
          tx.query({ text: `select distinct tenant_id from evidence.${table}`, values: [] }),
        )
      for (const table of ['file', 'custody_event', 'reference_counter']) {
        expect(await tenantsOf(table)).toEqual([{ tenant_id: one.tenantId }])
      }
      const insert = async (tenantId: string) =>
        await db.write({ assertion }, async (tx) =>
          tx.execute({
            text: 'insert into evidence.reference_counter (tenant_id, year, last_number) values ($1, 1999, 1)',
            values: [tenantId],
          }),
        )
      await expect(insert(other.tenantId)).rejects.toMatchObject({ code: '42501' })
      expect(await insert(one.tenantId)).toBe(1)
      const change = async (text: string) =>
        await db.write({ assertion }, async (tx) => tx.execute({ text, values: [] }))
      await expect(change("update evidence.file set file_name = 'x'")).rejects.toMatchObject({ code: '42501' })
      await expect(change('delete from evidence.custody_event')).rejects.toMatchObject({ code: '42501' })
    } finally {
      await db.close()
    }
  })

  test('with an assertion that the database rejects store no files', async () => {
    const principal = uploader(randomUUID())
    const deceived = createTestCaller({
      baseUrl: service.url,
      keyName: 'evidence',
      ring: service.env['POSTERN_SIGNING_EVIDENCE'] ?? '',
      assertionKeys: randomRing(),
    })
    const answer = await upload(deceived, principal, { body: 'a', headers: csv })
    // It is of now: clocks or secrets are wrong, and the upload has not taken too long.
    expect([answer.status, codeOf(answer)]).toEqual([503, 'service_unavailable'])
    expect(answer.headers['retry-after']).toBe('5')
    expect(await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])).toEqual([])
    expect(decodeProtectedHeader((await uploaded(service.caller, principal, 'a')).jws).alg).toBe('EdDSA')
  })
})
