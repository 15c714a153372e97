import { randomUUID } from 'node:crypto'
import { problemSchema, receiptSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FormPart, file, form, metadata } from './form.ts'
import { sha256, startEvidence, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  service = await startEvidence()
})
afterAll(async () => await service.close())

const send = async (...parts: readonly FormPart[]) => {
  const principal = uploader(randomUUID())
  return { principal, answer: await service.caller.call(principal, 'POST', '/api/v1/evidence', form(...parts)) }
}

const inBase64 = (part: FormPart, content: string): FormPart => ({
  ...part,
  content,
  head: `Content-Transfer-Encoding: base64\r\nContent-Type: ${part.contentType ?? 'application/json'}\r\nContent-Disposition: form-data; name="${part.name}"${part.fileName === undefined ? '' : `; filename="${part.fileName}"`}\r\n`,
})

const encoded = (text: string) => Buffer.from(text).toString('base64').replaceAll(/.{20}/g, '$&\r\n')

describe('a form whose metadata follows the file', () => {
  test('is accepted with its metadata', async () => {
    const said = { evidence_date: '2026-01-31', sha256: [sha256('a,b')] }
    const { answer } = await send(file('a.csv', 'a,b'), metadata(said))
    expect(answer.status, answer.text).toBe(201)
    const [receipt] = receiptSchema.array().parse(answer.json)
    expect(receipt).toMatchObject({ file_name: 'a.csv', evidence_date: '2026-01-31', sha256: sha256('a,b') })
  })

  test.each([
    ['another digest', metadata({ sha256: ['0'.repeat(64)] }), 'digest_mismatch'],
    ['an unknown member', metadata({ evidence_day: '2026-01-31' }), 'invalid_content'],
    ['no JSON', { name: 'metadata', content: '{' }, 'malformed_json'],
  ] as const)('is refused with %s, and nothing is stored', async (_what, part, code) => {
    const { principal, answer } = await send(file('a.csv', 'a,b'), part)
    expect(problemSchema.parse(answer.json).code).toBe(code)
    expect(await service.rows('select id from evidence.file where tenant_id = $1', [principal.tenantId])).toEqual([])
    expect(await service.filesIn('incoming')).toEqual([])
  })

  test('can contain its metadata once', async () => {
    const { answer } = await send(metadata({}), file('a.csv', 'a,b'), metadata({}))
    expect(problemSchema.parse(answer.json)).toMatchObject({ detail: expect.stringContaining('one part `metadata`') })
  })
})

const uploadForm = async (
  body: { readonly headers: Readonly<Record<string, string>>; readonly body: string | Buffer },
  query = '',
) => {
  const principal = uploader(randomUUID())
  const answer = await service.caller.call(principal, 'POST', `/api/v1/evidence/forms${query}`, body)
  return {
    answer,
    stored: await service.rows('select id from evidence.file where tenant_id = $1', [principal.tenantId]),
  }
}

describe('the path for forms', () => {
  test('returns a receipt for each file, in their order', async () => {
    const { answer, stored } = await uploadForm(
      form(metadata({ evidence_date: '2026-01-31' }), file('a.csv', 'a'), file('b.csv', 'b')),
    )
    expect(answer.status, answer.text).toBe(201)
    expect(receiptSchema.array().parse(answer.json)).toMatchObject([
      { file_name: 'a.csv', sha256: sha256('a'), evidence_date: '2026-01-31' },
      { file_name: 'b.csv', sha256: sha256('b'), evidence_date: '2026-01-31' },
    ])
    expect(stored).toHaveLength(2)
  })

  test('rejects a body that is no form, and stores nothing', async () => {
    const { answer, stored } = await uploadForm({ headers: { 'content-type': 'text/csv' }, body: 'a,b' })
    expect([answer.status, stored]).toEqual([415, []])
    expect(problemSchema.parse(answer.json).detail).toContain('multipart/form-data')
  })

  test('rejects a description in the query, and stores nothing', async () => {
    const { answer, stored } = await uploadForm(form(file('a.csv', 'a')), '?file_name=b.csv')
    expect([answer.status, stored]).toEqual([400, []])
  })

  test('rejects a form without a file', async () => {
    const { answer } = await uploadForm(form(metadata({})))
    expect([answer.status, problemSchema.parse(answer.json).detail]).toEqual([422, expect.stringContaining('`file`')])
  })
})

describe('a form with parts in base64, as Ansible sends it', () => {
  test('is decoded, with its line breaks', async () => {
    const text = `a,b\r\n${'x'.repeat(200_000)},ü`
    const { answer } = await send(
      inBase64(file('a.csv', ''), encoded(text)),
      inBase64({ name: 'metadata', content: '' }, encoded('{"evidence_date":"2026-01-31"}')),
    )
    expect(answer.status, answer.text).toBe(201)
    expect(receiptSchema.array().parse(answer.json)).toMatchObject([
      { sha256: sha256(text), evidence_date: '2026-01-31' },
    ])
  })

  test.each([
    ['characters that are not base64', 'a,b!'],
    ['a missing end', 'YSxi Y'],
    ['bytes behind the end', 'YQ==YQ=='],
  ])('is rejected with %s', async (_what, content) => {
    const { answer } = await send(inBase64(file('a.csv', ''), content))
    expect(problemSchema.parse(answer.json)).toMatchObject({ detail: expect.stringContaining('base64') })
    expect(await service.filesIn('incoming')).toEqual([])
  })
})

const begin = async (given?: string) =>
  await service.caller.call(uploader(randomUUID()), 'POST', '/api/v1/evidence/uploads', {
    headers: {
      'tus-resumable': '1.0.0',
      'upload-length': '5',
      ...(given === undefined ? {} : { 'upload-metadata': given }),
    },
  })

const detailOf = async (given?: string) => problemSchema.parse((await begin(given)).json).errors?.[0]?.detail

describe('Upload-Metadata', () => {
  test.each([
    ['the example of tus 1.0', 'filename d29ybGRfZG9taW5hdGlvbl9wbGFuLnBkZg==,is_confidential'],
    ['an unknown key', 'filename YS5jc3Y=,project YQ=='],
    ['a known key without a value', 'filename YS5jc3Y=,filetype,metadata'],
  ])('is accepted with %s', async (_what, given) => {
    const answer = await begin(given)
    expect(answer.status, answer.text).toBe(201)
  })

  test('that is missing differs from one without a file name', async () => {
    expect(await detailOf()).toContain('is missing')
    expect(await detailOf('file_name YS5jc3Y=')).toBe(
      'must have the key filename with the name of the file in base64 (it has file_name)',
    )
  })
})
