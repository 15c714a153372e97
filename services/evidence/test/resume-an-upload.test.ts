import { createHash, randomUUID } from 'node:crypto'
import { mkdir, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { problemSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { makeEnvironment, sha256, startEvidence, startEvidenceWithUniverse, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidenceWithUniverse>>
beforeAll(async () => {
  service = await startEvidenceWithUniverse({
    POSTERN_EVIDENCE_MAX_BYTES: '1048576',
    POSTERN_EVIDENCE_TENANT_QUOTA_BYTES: '1000000',
  })
})
afterAll(async () => await service.close())

const tus = { 'tus-resumable': '1.0.0' }
const uploads = '/api/v1/evidence/uploads'
const codeOf = ({ json }: CallAnswer) => problemSchema.parse(json).code
const bodyOf = ({ text }: CallAnswer) => text.replace(/"instance":"[^"]*"/, '')
const base64 = (text: string) => Buffer.from(text).toString('base64')

function metadataOf(fileName = 'a.csv', type = 'text/csv', details?: unknown): string {
  const pairs = [`filename ${base64(fileName)}`, `filetype ${base64(type)}`]
  if (details !== undefined) pairs.push(`metadata ${base64(JSON.stringify(details))}`)
  return pairs.join(',')
}

async function create(
  principal: Principal,
  length: number | string,
  metadata = metadataOf(),
  caller = service.caller,
): Promise<CallAnswer> {
  const headers = { ...tus, 'upload-length': String(length), 'upload-metadata': metadata }
  return await caller.call(principal, 'POST', uploads, { headers })
}

async function created(principal: Principal, length: number, metadata?: string): Promise<string> {
  const answer = await create(principal, length, metadata)
  expect(answer).toMatchObject({ status: 201 })
  return answer.headers['location'] ?? ''
}

async function append(
  principal: Principal,
  target: string,
  offset: number | string,
  body: string | Buffer | Readable,
  headers: Record<string, string> = {},
): Promise<CallAnswer> {
  const all = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset), ...headers }
  return await service.caller.call(principal, 'PATCH', target, { body, headers: all })
}

async function head(principal: Principal, target: string): Promise<CallAnswer> {
  return await service.caller.call(principal, 'HEAD', target, { headers: tus })
}

const sizeOf = async (tenantId: string, id: string) =>
  (await stat(join(service.blobDirectory, 'partial', tenantId, `${id}.1`))).size

async function expectNothing(tenantId: string): Promise<void> {
  expect(await service.filesIn(`partial/${tenantId}`)).toEqual([])
  expect(await service.filesIn(`blobs/${tenantId}`)).toEqual([])
  expect(await service.rows('select from evidence.upload where tenant_id = $1', [tenantId])).toEqual([])
  expect(await service.rows('select from evidence.file where tenant_id = $1', [tenantId])).toEqual([])
}

describe('a resumable upload is not created', () => {
  test.each([
    ['without its length', '', metadataOf(), 400, 'bad_request'],
    ['with a length that is no number', '1e3', metadataOf(), 400, 'bad_request'],
    ['with no bytes', 0, metadataOf(), 422, 'invalid_content'],
    ['larger than the limit', 1_048_577, metadataOf(), 413, 'content_too_large'],
    ['larger than the tenant may keep', 1_000_001, metadataOf(), 413, 'quota_exceeded'],
    ['without a file name', 5, `filetype ${base64('text/csv')}`, 400, 'bad_request'],
    ['with a path as file name', 5, metadataOf('../a.csv'), 400, 'bad_request'],
    ['with metadata that is not base64', 5, 'filename a.csv', 400, 'bad_request'],
    ['with metadata that is not UTF-8', 5, `filename ${Buffer.from([0xff]).toString('base64')}`, 400, 'bad_request'],
    ['with a name behind a byte order mark', 5, metadataOf('\ufeffa.csv'), 400, 'bad_request'],
    ['with a key twice', 5, `${metadataOf()},${metadataOf()}`, 400, 'bad_request'],
    ['with too much metadata', 5, metadataOf('a'.repeat(4000)), 400, 'bad_request'],
    ['with details that are not JSON', 5, `${metadataOf()},metadata ${base64('{')}`, 400, 'malformed_json'],
    ['with unknown details', 5, metadataOf('a.csv', 'text/csv', { x: 1 }), 422, 'invalid_content'],
    [
      'with a time that has not come yet',
      5,
      metadataOf('a.csv', 'text/csv', { collected_at: new Date(Date.now() + 3_600_000).toISOString() }),
      422,
      'invalid_content',
    ],
    [
      'with a digest too many',
      5,
      metadataOf('a.csv', 'text/csv', { sha256: ['a'.repeat(64), 'b'.repeat(64)] }),
      422,
      'invalid_content',
    ],
    ['with no digest in their list', 5, metadataOf('a.csv', 'text/csv', { sha256: [] }), 422, 'invalid_content'],
    ['as a program by its name', 5, metadataOf('a.exe'), 415, 'unsupported_media_type'],
    ['as a web page by its type', 5, metadataOf('a', 'text/html'), 415, 'unsupported_media_type'],
  ])('%s', async (_what, length, metadata, status, code) => {
    const principal = uploader()
    const answer = await create(principal, length, metadata)
    expect([answer.status, codeOf(answer), answer.headers['tus-resumable']]).toEqual([status, code, '1.0.0'])
    await expectNothing(principal.tenantId)
  })

  test('in another version of the protocol', async () => {
    const headers = { 'upload-length': '5', 'upload-metadata': metadataOf(), 'tus-resumable': '0.2.2' }
    const answer = await service.caller.call(uploader(), 'POST', uploads, { headers })
    expect([answer.status, codeOf(answer), answer.headers['tus-version']]).toEqual([
      412,
      'unsupported_protocol',
      '1.0.0',
    ])
  })
})

describe('a piece is rejected and adds no bytes', () => {
  test.each([
    ['where it does not begin at the end of what is there', 3, 'xx', {}, 409, 'conflict'],
    ['without an offset', '', 'xx', {}, 400, 'bad_request'],
    ['in another media type', 2, 'xx', { 'content-type': 'text/csv' }, 415, 'unsupported_media_type'],
    ['beyond the end', 2, 'x'.repeat(9), {}, 413, 'content_too_large'],
    ['beyond the end, its length unsaid', 2, Readable.from([Buffer.alloc(9, 'x')]), {}, 413, 'content_too_large'],
    ['with a checksum of an unknown kind', 2, 'xx', { 'upload-checksum': 'md5 eA==' }, 400, 'bad_request'],
    [
      'with the checksum of another piece',
      2,
      'xx',
      { 'upload-checksum': `sha1 ${createHash('sha1').update('yy').digest('base64')}` },
      460,
      'checksum_mismatch',
    ],
  ])('%s', async (_what, offset, body, headers, status, code) => {
    const principal = uploader()
    const target = await created(principal, 10)
    expect(await append(principal, target, 0, 'ab')).toMatchObject({ status: 204 })
    const answer = await append(principal, target, offset, body, headers)
    expect([answer.status, codeOf(answer), answer.headers['tus-resumable']]).toEqual([status, code, '1.0.0'])
    expect((await head(principal, target)).headers['upload-offset']).toBe('2')
  })

  test('with the same 404 as for a missing upload, if it belongs to another key or tenant', async () => {
    const principal = { ...uploader(), id: randomUUID() }
    const target = await created(principal, 10)
    const others = [
      { ...principal, id: randomUUID() },
      { ...uploader(), id: principal.id },
    ]
    const unknown = await append(principal, `${uploads}/${randomUUID()}`, 0, 'ab')
    expect(unknown.status).toBe(404)
    for (const other of others) {
      const answer = await append(other, target, 0, 'ab')
      expect([answer.status, bodyOf(answer)]).toEqual([404, bodyOf(unknown)])
      expect((await head(other, target)).status).toBe(404)
      expect((await service.caller.call(other, 'DELETE', target, { headers: tus })).status).toBe(404)
    }
    expect((await head(principal, target)).headers['upload-offset']).toBe('0')
  })
})

test('a request for the upload of somebody else does not end the piece in progress', async () => {
  const principal = { ...uploader(), id: randomUUID() }
  const target = await created(principal, 10)
  const body = new PassThrough()
  body.write('abcde')
  const sending = append(principal, target, 0, body)
  const size = async () => await sizeOf(principal.tenantId, target.split('/').at(-1) ?? '').catch(() => 0)
  await expect.poll(size).toBe(5)
  for (const other of [uploader(), { ...principal, id: randomUUID() }]) {
    expect((await head(other, target)).status).toBe(404)
    expect((await append(other, target, 0, 'ab')).status).toBe(404)
    expect((await service.caller.call(other, 'DELETE', target, { headers: tus })).status).toBe(404)
  }
  body.end('fghij')
  expect(await sending).toMatchObject({ status: 204, headers: { 'upload-offset': '10' } })
})

test('a resumable upload without a type is stored as application/octet-stream', async () => {
  const principal = uploader()
  const target = await created(principal, 3, `filename ${base64('a.xyz')},filetype `)
  const { headers } = await append(principal, target, 0, 'a,b')
  expect(decodeJwt(headers['postern-receipt'] ?? '')).toMatchObject({ content_type: 'application/octet-stream' })
})

describe('a resumable upload', () => {
  test('continues after each piece and is recorded with the last one, whose response has the receipt', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1'])
    const details = { test_procedures: ['ref:TP-0001'], evidence_date: '2026-09-30', sha256: [sha256('abcdefgh')] }
    const metadata = metadataOf('u\u0308.csv', 'text/csv', details)
    const target = await created(principal, 8, metadata)
    expect(target).toMatch(/^\/api\/v1\/evidence\/uploads\/[0-9a-f-]{36}$/)
    const first = await append(principal, target, 0, 'abc', {
      'upload-checksum': `sha256 ${createHash('sha256').update('abc').digest('base64')}`,
    })
    expect([first.status, first.headers['upload-offset']]).toEqual([204, '3'])
    expect(Date.parse(first.headers['upload-expires'] ?? '')).toBeGreaterThan(Date.now() + 23 * 3_600_000)
    expect(first.headers).not.toHaveProperty('postern-receipt')
    expect(await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])).toEqual([])

    const last = await append(principal, target, 3, Readable.from([Buffer.from('de'), Buffer.from('fgh')]))
    expect([last.status, last.headers['upload-offset']]).toEqual([204, '8'])
    const jws = last.headers['postern-receipt'] ?? ''
    expect(decodeProtectedHeader(jws).typ).toBe('postern-receipt')
    expect(decodeJwt(jws)).toMatchObject({
      file_name: '\u00fc.csv',
      size_bytes: 8,
      sha256: sha256('abcdefgh'),
      evidence_date: '2026-09-30',
      test_procedures: ['ref:TP-0001'],
    })
    const rows = await service.rows('select receipt_jws from evidence.file where tenant_id = $1', [principal.tenantId])
    expect(rows).toEqual([{ receipt_jws: jws }])
    expect(await service.filesIn(`partial/${principal.tenantId}`)).toEqual([])
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])

    // The answer to the last piece may be lost.
    const again = await head(principal, target)
    expect([again.status, again.headers['upload-offset'], again.headers['upload-length']]).toEqual([200, '8', '8'])
    expect(again.headers['postern-receipt']).toBe(jws)
    expect(again.headers['upload-metadata']).toBe(metadata)
    expect(await append(principal, target, 8, '')).toMatchObject({ status: 204 })
    const given = await service.caller.call(principal, 'DELETE', target, { headers: tus })
    expect([given.status, codeOf(given)]).toEqual([409, 'conflict'])
  })

  test('keeps the bytes of an interrupted piece', async () => {
    const principal = uploader()
    const target = await created(principal, 500_000)
    const body = new Readable({ read: () => undefined })
    body.push(Buffer.alloc(100_000, 'a'))
    const broken = append(principal, target, 0, body)
    broken.catch(() => undefined)
    const id = target.split('/').at(-1) ?? ''
    await expect.poll(async () => await sizeOf(principal.tenantId, id)).toBe(100_000)
    body.destroy(new Error('the sender breaks off'))
    await expect(broken).rejects.toThrow('breaks off')
    expect((await head(principal, target)).headers['upload-offset']).toBe('100000')
  })

  test('continues with the newer of two requests, because the older connection may be dead', async () => {
    const principal = uploader()
    const target = await created(principal, 8)
    const body = new Readable({ read: () => undefined })
    body.push('abc')
    const older = append(principal, target, 0, body)
    const id = target.split('/').at(-1) ?? ''
    await expect.poll(async () => await sizeOf(principal.tenantId, id)).toBe(3)
    expect((await head(principal, target)).headers['upload-offset']).toBe('3')
    expect(await older).toMatchObject({ status: 409, json: { code: 'conflict' } })
    body.destroy()
    expect(await append(principal, target, 3, 'defgh')).toMatchObject({ status: 204 })
  })

  test('whose last byte had arrived when the process died is recorded by the next request', async () => {
    const principal = uploader()
    const target = await created(principal, 8)
    const id = target.split('/').at(-1) ?? ''
    await mkdir(join(service.blobDirectory, 'partial', principal.tenantId))
    await writeFile(join(service.blobDirectory, 'partial', principal.tenantId, `${id}.1`), 'abcdefgh')
    await service.rows('update evidence.upload set turn = 1 where id = $1', [id])
    const died = 'insert into evidence.upload_piece (tenant_id, upload_id, turn, is_checked) values ($1, $2, 1, false)'
    await service.rows(died, [principal.tenantId, id])
    const [one, two] = await Promise.all([head(principal, target), head(principal, target)])
    expect(decodeJwt(one.headers['postern-receipt'] ?? '')).toMatchObject({ sha256: sha256('abcdefgh') })
    expect(two.headers['postern-receipt']).toBe(one.headers['postern-receipt'])
    const rows = await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])
    expect(rows).toHaveLength(1)
  })

  test.each([
    ['turns out to be a program', Buffer.concat([Buffer.from('7f454c4602010100', 'hex'), Buffer.alloc(92)]), 415],
    ['is not what its sender has hashed', Buffer.alloc(100, 'x'), 422],
  ])('that %s leaves nothing', async (_what, bytes, status) => {
    const principal = uploader()
    const target = await created(principal, 100, metadataOf('a.csv', 'text/csv', { sha256: [sha256('else')] }))
    expect(await append(principal, target, 0, bytes.subarray(0, 50))).toMatchObject({ status: 204 })
    expect(await append(principal, target, 50, bytes.subarray(50))).toMatchObject({ status })
    expect((await head(principal, target)).status).toBe(404)
    await expectNothing(principal.tenantId)
  })

  test('that is cancelled leaves no bytes', async () => {
    const principal = uploader()
    const target = await created(principal, 10)
    await append(principal, target, 0, 'abc')
    expect(await service.caller.call(principal, 'DELETE', target, { headers: tus })).toMatchObject({ status: 204 })
    expect((await head(principal, target)).status).toBe(404)
    await expectNothing(principal.tenantId)
  })

  test('of the text that some clients send instead of a file ends, because no piece could correct it', async () => {
    const principal = uploader()
    const target = await created(principal, 4)
    expect(await append(principal, target, 0, 'null')).toMatchObject({ status: 422 })
    expect((await head(principal, target)).status).toBe(404)
    await expectNothing(principal.tenantId)
  })

  test('is created once for its Idempotency-Key', async () => {
    const principal = uploader()
    const headers = {
      ...tus,
      'upload-length': '5',
      'upload-metadata': metadataOf(),
      'idempotency-key': randomUUID(),
    }
    const first = await service.caller.call(principal, 'POST', uploads, { headers })
    const second = await service.caller.call(principal, 'POST', uploads, { headers })
    expect(second.headers['location']).toBe(first.headers['location'])
    const rows = await service.rows('select from evidence.upload where tenant_id = $1', [principal.tenantId])
    expect(rows).toHaveLength(1)
  })
})

test('an upload that continues on another replica keeps its bytes, even if the older request sends too many', async () => {
  const environment = await makeEnvironment()
  const [older, newer] = [await startEvidence({}, {}, environment), await startEvidence({}, {}, environment)]
  const principal = uploader()
  const { headers } = await create(principal, 8, metadataOf(), older.caller)
  const target = headers['location'] ?? ''
  const piece = { ...tus, 'content-type': 'application/offset+octet-stream' }
  const body = new PassThrough()
  body.write('abcde')
  const sending = older.caller.call(principal, 'PATCH', target, { body, headers: { ...piece, 'upload-offset': '0' } })
  const path = join(environment.blobDirectory, 'partial', principal.tenantId, `${target.split('/').at(-1)}.1`)
  await vi.waitFor(async () => expect((await stat(path)).size).toBe(5), { timeout: 30_000, interval: 20 })
  const asked = await newer.caller.call(principal, 'HEAD', target, { headers: tus })
  expect(asked.headers['upload-offset']).toBe('5')
  body.end('far too much')
  expect((await sending).status).toBe(413)
  const last = { body: 'fgh', headers: { ...piece, 'upload-offset': '5' } }
  const ended = await newer.caller.call(principal, 'PATCH', target, last)
  expect([ended.status, ended.headers['upload-offset']]).toEqual([204, '8'])
  expect(decodeJwt(ended.headers['postern-receipt'] ?? '')).toMatchObject({ sha256: sha256('abcdefgh') })
  await newer.stop()
  await older.close()
})

describe('a resumable upload that takes too long', () => {
  test('expires, and its bytes are deleted by the next sweep', async () => {
    const environment = await makeEnvironment()
    const short = { POSTERN_EVIDENCE_RESUMABLE_MS: '60000' }
    const principal = uploader()
    const first = await startEvidence(short, {}, environment)
    const { headers } = await create(principal, 5, metadataOf(), first.caller)
    expect(Date.parse(headers['upload-expires'] ?? '')).toBeLessThan(Date.now() + 61_000)
    const target = headers['location'] ?? ''
    const piece = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' }
    const sent = await first.caller.call(principal, 'PATCH', target, { body: 'ab', headers: piece })
    expect(sent.status).toBe(204)
    const path = join(environment.blobDirectory, 'partial', principal.tenantId, `${target.split('/').at(-1)}.1`)
    // As if the minute were over.
    await first.rows('update evidence.upload set expires_at = now() where tenant_id = $1', [principal.tenantId])
    expect((await first.caller.call(principal, 'HEAD', target, { headers: tus })).status).toBe(404)
    await first.stop()
    await utimes(path, 0, 0)
    const second = await startEvidence(short, {}, environment)
    await second.close()
    expect(second.logs.join('')).toContain('"event":"partial_swept","files":1')
  })

  test('keeps the time limit of its start, even if the setting is shortened later', async () => {
    const environment = await makeEnvironment()
    const principal = uploader()
    const first = await startEvidence({}, {}, environment)
    const targets: string[] = []
    for (let count = 0; count < 2; count += 1) {
      const { headers } = await create(principal, 4, metadataOf(), first.caller)
      targets.push(headers['location'] ?? '')
    }
    const [kept = '', expired = ''] = targets
    const piece = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' }
    const pathOf = (target: string) =>
      join(environment.blobDirectory, 'partial', principal.tenantId, `${target.split('/').at(-1)}.1`)
    for (const target of targets) {
      await first.caller.call(principal, 'PATCH', target, { body: 'ab', headers: piece })
      const aWhileAgo = Date.now() / 1000 - 7200
      await utimes(pathOf(target), aWhileAgo, aWhileAgo)
    }
    await first.rows('update evidence.upload set expires_at = now() where id = $1', [expired.split('/').at(-1) ?? ''])
    await first.stop()
    const second = await startEvidence({ POSTERN_EVIDENCE_RESUMABLE_MS: '60000' }, {}, environment)
    await vi.waitFor(async () => await expect(stat(pathOf(expired))).rejects.toThrow('ENOENT'), { timeout: 30_000 })
    const last = { body: 'cd', headers: { ...piece, 'upload-offset': '2' } }
    expect(await second.caller.call(principal, 'PATCH', kept, last)).toMatchObject({ status: 204 })
    await second.close()
  })
})

test.each([
  ['content-encoding', 'gzip', 415],
  ['content-digest', 'sha-256=:AAAA:', 400],
  ['repr-digest', 'sha-256=:AAAA:', 400],
])(
  'the header %s: %s is rejected, because pieces are neither verified by it nor unpacked',
  async (name, value, status) => {
    const principal = uploader()
    const headers = { ...tus, 'upload-length': '2', 'upload-metadata': metadataOf(), [name]: value }
    expect((await service.caller.call(principal, 'POST', uploads, { headers })).status).toBe(status)
    const target = await created(principal, 2)
    expect((await append(principal, target, 0, 'ab', { [name]: value })).status).toBe(status)
    expect((await head(principal, target)).headers['upload-offset']).toBe('0')
  },
)

test('a partial upload (tus concatenation) is rejected, because it would become a file', async () => {
  const headers = { ...tus, 'upload-length': '2', 'upload-metadata': metadataOf(), 'upload-concat': 'partial' }
  const answer = await service.caller.call(uploader(), 'POST', uploads, { headers })
  expect([answer.status, answer.json]).toMatchObject([400, { errors: [{ parameter: 'Upload-Concat' }] }])
})
