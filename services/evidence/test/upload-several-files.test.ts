import { Readable } from 'node:stream'
import { problemSchema, receiptSchema } from '@postern/contracts'
import type { CallAnswer, CallOptions, Principal } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { file, form, metadata } from './form.ts'
import { anyBytes, contentDigest, sha256, startEvidence, startEvidenceWithUniverse, uploader } from './support.ts'

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

async function send(principal: Principal, options: CallOptions, query = ''): Promise<CallAnswer> {
  return await service.caller.call(principal, 'POST', `/api/v1/evidence${query}`, options)
}

async function expectNothingKept(tenantId: string): Promise<void> {
  for (const at of [service, hasty]) {
    expect(await at.filesIn('incoming')).toEqual([])
    for (const folder of ['settling', 'blobs']) expect(await at.filesIn(`${folder}/${tenantId}`)).toEqual([])
    for (const table of ['file', 'attachment', 'custody_event', 'tenant_usage']) {
      expect(await at.rows(`select from evidence.${table} where tenant_id = $1`, [tenantId])).toEqual([])
    }
  }
}

const receiptsOf = (answer: CallAnswer) => z.array(receiptSchema).parse(answer.json)
const named = (fileName: string) => `Content-Disposition: form-data; name="file"; filename="${fileName}"\r\n`
const elf = Buffer.concat([Buffer.from('7f454c4602010100', 'hex'), Buffer.alloc(64)])

const fromNow = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
const dayFromNow = (days: number) => fromNow(days * 24 * 60).slice(0, 10)

describe('future dates are not signed', () => {
  test.each([
    ['collected_at', fromNow(60)],
    ['evidence_date', dayFromNow(3)],
  ])('%s', async (member, value) => {
    const principal = uploader()
    const inForm = await send(principal, form(metadata({ [member]: value }), file('a.csv', 'a')))
    expect(inForm).toMatchObject({
      status: 422,
      json: { code: 'invalid_content', errors: [{ pointer: `/${member}`, code: 'in_future' }] },
    })
    const query = `?file_name=a.csv&${member}=${encodeURIComponent(value)}`
    const inQuery = await send(principal, { body: 'a', headers: { 'content-type': 'text/csv' } }, query)
    expect(inQuery).toMatchObject({
      status: 400,
      json: { code: 'bad_request', errors: [{ parameter: member, code: 'in_future' }] },
    })
    await expectNothingKept(principal.tenantId)
  })

  test('the clock of a sender may be ahead, its day may have begun, and a period may end in the future', async () => {
    const query = `?file_name=a.csv&collected_at=${fromNow(2)}&evidence_date=${dayFromNow(1)}&period_end=${dayFromNow(90)}`
    const answer = await send(uploader(), { body: 'a', headers: { 'content-type': 'text/csv' } }, query)
    expect(answer).toMatchObject({ status: 201 })
  })
})

describe('an upload of several files is rejected and leaves none of them', () => {
  let principal = uploader()
  afterEach(async () => {
    await expectNothingKept(principal.tenantId)
    principal = uploader()
  })

  const good = file('good.csv', 'a,b\n')
  test.each([
    ['without a file', form(metadata({})), 422, 'invalid_content'],
    ['with an unknown part', form(good, { name: 'other', content: 'x' }), 422, 'invalid_content'],
    ['with a file under another name', form({ ...good, name: 'files' }), 422, 'invalid_content'],
    ['with metadata twice', form(metadata({}), metadata({}), good), 422, 'invalid_content'],
    ['with metadata that is not JSON', form({ name: 'metadata', content: '{' }, good), 400, 'malformed_json'],
    ['with too much metadata', form({ name: 'metadata', content: ' '.repeat(70_000) }, good), 413, 'content_too_large'],
    ['with an unknown field', form(metadata({ tenant_id: 'x' }), good), 422, 'invalid_content'],
    ['with a day that does not exist', form(metadata({ evidence_date: '2026-02-30' }), good), 422, 'invalid_content'],
    [
      'with a period that ends before it begins',
      form(metadata({ period_start: '2026-02-02', period_end: '2026-02-01' }), good),
      422,
      'invalid_content',
    ],
    [
      'with a test procedure that is no address',
      form(metadata({ test_procedures: ['x'] }), good),
      422,
      'invalid_content',
    ],
    ['with eleven files', form(...Array.from({ length: 11 }, () => good)), 422, 'invalid_content'],
    ['with a path as file name', form(good, file('../a.csv', 'x')), 422, 'invalid_content'],
    ['with an empty file', form(good, file('b.csv', '')), 422, 'invalid_content'],
    ['with a program among them', form(good, file('b.csv', elf)), 415, 'unsupported_media_type'],
    ['with a script by its ending', form(good, file('b.sh', 'x')), 415, 'unsupported_media_type'],
    [
      'with a file that is too large',
      form(good, file('b.csv', Buffer.alloc(1_048_577, 'a'))),
      413,
      'content_too_large',
    ],
    [
      'with fewer digests than files',
      form(metadata({ sha256: [sha256('a,b\n')] }), good, good),
      422,
      'invalid_content',
    ],
    [
      'with the digest of another file',
      form(metadata({ sha256: [sha256('a,b\n'), sha256('x')] }), good, good),
      422,
      'digest_mismatch',
    ],
    [
      'with metadata that is not UTF-8',
      form({ name: 'metadata', content: Buffer.from('{"description":"caf\u00e9"}', 'latin1') }, good),
      400,
      'malformed_json',
    ],
    [
      'with a file name that is not UTF-8',
      form(good, { ...good, head: Buffer.from(named('caf\u00e9.csv'), 'latin1') }),
      422,
      'invalid_content',
    ],
    [
      'with a part that says nothing of what it is',
      form(good, { ...good, head: 'Content-Type: text/csv\r\n' }),
      422,
      'invalid_content',
    ],
    [
      'with a part that is no form-data',
      form(good, { ...good, head: named('b.csv').replace('form-data', 'attachment') }),
      422,
      'invalid_content',
    ],
    [
      'with a file in base64',
      form(good, { ...good, head: `${named('b.csv')}Content-Transfer-Encoding: base64\r\n` }),
      422,
      'invalid_content',
    ],
    ['without a boundary', { body: 'x', headers: { 'content-type': 'multipart/form-data' } }, 400, 'bad_request'],
    ['that ends in the middle', { ...form(good), body: form(good).body.subarray(0, -20) }, 400, 'bad_request'],
    [
      'with a digest of the whole body, which nobody checks',
      { ...form(good), headers: { ...form(good).headers, 'content-digest': contentDigest(form(good).body) } },
      400,
      'bad_request',
    ],
  ])('%s', async (_what, options, status, code) => {
    const answer = await send(principal, options)
    expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([status, code])
  })

  test.each([
    'name="file"; filename="a.csv"; filename="b.exe"',
    'name=file; filename="b.exe"; filename="a.csv"',
    'name="file"; filename="a.csv"; FileName = b.exe',
    'name="file"; filename="a.csv"; file name="b.csv"',
    'name="file"; filename="\\"; filename="a.csv"',
    "name=\"file\"; filename*=utf-8''b.csv; filename*=utf-8''a.csv",
    'name="file"; name="metadata"; filename="a.csv"',
    'name=file; filename=a.csv; "filename=b.exe"',
    'name=file; filename=a.csv; file"name=b.exe"',
    "name=file; name*=utf-8''metadata; filename=a.csv",
    "name=file; filename*=utf-8''a.csv; filename*b.exe",
    'name=file; filename=a b.csv',
    'name=file; filename=a.csv; filename*=b.exe',
    "name=file; filename*=utf-8''a.csv; filename=b.exe",
    'name="file"; filename="a\\";name=metadata.csv"',
    'name="file"; filename="a.csv"\r\nContent-Disposition: form-data; name="file"; filename="b.exe"',
    'name="file"; filename="a.csv"\r\nContent-Disposition : form-data; name="file"; filename="b.exe"',
    'name="file"; filename="a.csv"\r\nno colon\r\nContent-Disposition: form-data; name="file"; filename="b.exe"',
    `name="file"; filename="a.csv"${'\r\nX-More: 1'.repeat(20)}\r\nContent-Disposition: form-data; filename="b.exe"`,
    `name="file"; filename="a.csv"\r\nX-More: ${'x'.repeat(8192)}\r\nContent-Disposition: form-data; filename="b.exe"`,
    'name="file"; filename="a.csv"\r\nContent-Type: text/csv\r\nContent-Type: text/html',
    'name="file"; filename="a.csv"\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64',
  ])('with an ambiguous part: %s', async (says) => {
    const head = `Content-Disposition: form-data; ${says}\r\n`
    const answer = await send(principal, form(good, { ...good, head }))
    expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([400, 'bad_request'])
  })

  test.each([
    ['has no bytes', file('b.csv', ''), {}, 'File 2 of the form: The file is empty. Send its bytes.'],
    ['is too large', file('b.csv', Buffer.alloc(1_048_577)), {}, 'File 2 of the form: The file exceeds the size limit'],
    ['is a program', file('b.exe', 'MZ'), {}, 'File 2 of the form: '],
    ['is a program by its bytes', file('b.csv', elf), {}, 'File 2 of the form: '],
    [
      'has another digest',
      file('b.csv', 'b'),
      { sha256: [sha256('a'), sha256('c')] },
      'File 2 of the form: The SHA-256',
    ],
  ])('that says which of them %s', async (_what, second, said, words) => {
    const answer = await send(principal, form(metadata(said), file('a.csv', 'a'), second, file('c.csv', 'c')))
    expect(answer.status).toBeGreaterThanOrEqual(413)
    expect(problemSchema.parse(answer.json).detail).toContain(words)
  })

  test.each(['"form-data"', 'form -data', 'form-\u00fcdata'])(
    'with a part that is ambiguously form-data: %s',
    async (type) => {
      const head = `Content-Disposition: ${type}; name="file"; filename="a.csv"; filename="b.exe"\r\n`
      const answer = await send(principal, form(good, { ...good, head }))
      expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([400, 'bad_request'])
    },
  )

  test('with a file name that is too long, with the limit', async () => {
    const answer = await send(uploader(), form(good, file(`${'a'.repeat(256)}.csv`, 'a')))
    expect(answer.status).toBe(422)
    expect(answer.text).toContain('must have at most 255 characters')
    expect(answer.text).not.toContain('Too big')
  })

  test.each(['?file_name=a.csv', '?classification=public', '?test_procedure=ref:TP-0001'])(
    'whose query says something too: %s',
    async (query) => {
      const answer = await send(principal, form(good), query)
      expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([400, 'bad_request'])
    },
  )

  test('if it stalls', async () => {
    const { body, headers } = form(good, file('b.csv', anyBytes(100_000)))
    const stream = new Readable({ read: () => undefined })
    stream.push(body.subarray(0, 50_000))
    const answer = await hasty.caller.call(principal, 'POST', '/api/v1/evidence', { body: stream, headers })
    expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([408, 'request_timeout'])
    stream.destroy()
  })
})

describe('an upload of several files', () => {
  test('returns the receipts in order and stores the details', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1', 'SOX-7'])
    const big = anyBytes(500_000)
    const answer = await send(
      principal,
      form(
        metadata({
          evidence_date: '2026-09-30',
          period_start: '2026-07-01',
          period_end: '2026-09-30',
          source_system: 'Core banking',
          collection_method: 'query',
          collected_by: { email: 'ada.lund@harbourline.example' },
          collected_at: '2026-10-01T09:00:00+02:00',
          query_text: 'select 1',
          classification: 'restricted',
          description: 'Access review',
          test_procedures: ['ref:TP-0001', 'ext:SOX-7', 'ref:TP-0001'],
          sha256: [sha256('a,b\n'), sha256(big)],
        }),
        file('u\u0308.csv', 'a,b\n'),
        file('big.bin', big, 'application/octet-stream'),
      ),
    )
    expect(answer.status).toBe(201)
    expect(receiptsOf(answer)).toMatchObject([
      {
        file_name: '\u00fc.csv',
        content_type: 'text/csv',
        size_bytes: 4,
        sha256: sha256('a,b\n'),
        evidence_date: '2026-09-30',
        test_procedures: ['ref:TP-0001', 'ext:SOX-7'],
        version_of: null,
        revision: 1,
      },
      { file_name: 'big.bin', size_bytes: 500_000, sha256: sha256(big) },
    ])
    const said = `
      select evidence_date::text, period_start::text, period_end::text, source_system, collection_method, collected_by,
        collected_at, query_text, classification, description
      from evidence.file where tenant_id = $1`
    const row = {
      evidence_date: '2026-09-30',
      period_start: '2026-07-01',
      period_end: '2026-09-30',
      source_system: 'Core banking',
      collection_method: 'query',
      collected_by: { email: 'ada.lund@harbourline.example' },
      collected_at: new Date('2026-10-01T07:00:00Z'),
      query_text: 'select 1',
      classification: 'restricted',
      description: 'Access review',
    }
    expect(await service.rows(said, [principal.tenantId])).toEqual([row, row])
    const attached = `
      select procedure.external_id
      from evidence.attachment
        join universe.test_procedure procedure on procedure.id::text = attachment.test_procedure
      where attachment.tenant_id = $1
      order by attachment.file_id, attachment.id`
    expect(await service.rows(attached, [principal.tenantId])).toEqual(
      ['SOX-1', 'SOX-7', 'SOX-1', 'SOX-7'].map((external_id) => ({ external_id })),
    )
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(2)
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
  })

  test('can have ten files, even with equal bytes, and needs no metadata', async () => {
    const principal = uploader()
    const parts = Array.from({ length: 10 }, (_, index) => file(`${index}.csv`, `bytes ${index % 9}`))
    const receipts = receiptsOf(await send(principal, form(...parts)))
    expect(receipts.map(({ file_name }) => file_name)).toEqual(parts.map(({ fileName }) => fileName))
    expect(new Set(receipts.map(({ reference }) => reference)).size).toBe(10)
    expect(receipts[0]).toMatchObject({ evidence_date: receipts[0]?.received_at.slice(0, 10), test_procedures: [] })
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(9)
  })

  test.each([
    ['two that are larger together', [700_000, 700_000]],
    ['one that is just as large', [1_048_576]],
  ])('can have files up to the limit of one file: %s', async (_what, sizes) => {
    const files = sizes.map((size, at) => file(`${at}.csv`, Buffer.alloc(size, 'a')))
    const { body, headers } = form(...files)
    expect(receiptsOf(await send(uploader(), { body, headers })).map(({ size_bytes: size }) => size)).toEqual(sizes)
  })

  test.each([
    ['without quotes, as .NET sends it', 'name=file; filename=a.csv'],
    ['with quotes', 'name="file"; filename="a.csv"'],
    ['with a quoted name of the part', 'name="file"; filename=a.csv'],
  ])('can have a name in both forms: %s', async (_how, names) => {
    const head = `Content-Disposition: form-data; ${names}; filename*=utf-8''%C3%BC.csv\r\n`
    const receipts = receiptsOf(await send(uploader(), form({ ...file('', 'a'), head }, file('b.csv', 'b'))))
    expect(receipts.map(({ file_name: name }) => name)).toEqual(['\u00fc.csv', 'b.csv'])
  })

  test.each([
    ['curl and browsers', 'name="file"; filename="x;name=y \'1\'.pdf"', "x;name=y '1'.pdf"],
    ['curl, with quotes', 'name="file"; filename="a \\"b\\" c.csv"', 'a "b" c.csv'],
    ['browsers, with quotes', 'name="file"; filename="a %22b%22.csv"', 'a %22b%22.csv'],
    ['who folds lines', 'name="file";\r\n filename="\u00fc.csv"\r\nContent-Length: 1', '\u00fc.csv'],
    ['who leaves quotes out', 'name=file; filename=x-\u00fc.csv', 'x-\u00fc.csv'],
    ['who ends it with a semicolon', 'NAME=file;filename=a.csv ;', 'a.csv'],
  ])('can have names as sent by %s', async (_who, says, name) => {
    const head = `Content-Disposition: Form-Data; ${says}\r\n`
    const [receipt] = receiptsOf(await send(uploader(), form({ ...file('', 'a'), head })))
    expect(receipt?.file_name).toBe(name)
  })

  test('can have its metadata as a file, as browsers send JSON', async () => {
    const blob = {
      name: 'metadata',
      fileName: 'blob',
      contentType: 'application/json',
      content: '{"source_system":"X"}',
    }
    const principal = uploader()
    expect(await send(principal, form(blob, file('a.csv', 'a')))).toMatchObject({ status: 201 })
    const rows = await service.rows('select source_system from evidence.file where tenant_id = $1', [
      principal.tenantId,
    ])
    expect(rows).toEqual([{ source_system: 'X' }])
  })

  test('does not deadlock with another upload of the same files', async () => {
    const principal = uploader()
    const [one, two] = [file('one.csv', anyBytes(20)), file('two.csv', anyBytes(20))]
    // So few that PostgreSQL ends none of them for waiting too long, even if each takes half a second.
    const answers = await Promise.all(
      Array.from({ length: 4 }, async (_, index) => send(principal, index % 2 === 0 ? form(one, two) : form(two, one))),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
  })
})
