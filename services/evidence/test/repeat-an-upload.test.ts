import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { file, formWith, metadata } from './form.ts'
import { startEvidence, upload, uploader } from './support.ts'

let evidence: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (evidence = await startEvidence()))
afterAll(async () => await evidence.close())

const filesOf = async (tenantId: string) =>
  await evidence.rows('select id from evidence.file where tenant_id = $1', [tenantId])

describe('an upload that is sent twice with one Idempotency-Key', () => {
  test('is stored once, and gets the same receipt again', async () => {
    const principal = uploader()
    const request = { body: 'a,b\n1,2\n', headers: { 'content-type': 'text/csv', 'idempotency-key': randomUUID() } }
    const first = await upload(evidence.caller, principal, request)
    const second = await upload(evidence.caller, principal, request)
    expect([first.status, second.status]).toEqual([201, 201])
    expect(second.text).toBe(first.text)
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(await filesOf(principal.tenantId)).toHaveLength(1)
  })

  test('as a form is stored once for any boundary, and differs with another part', async () => {
    const principal = uploader()
    const key = { 'idempotency-key': randomUUID() }
    const send = async (note: string) => {
      const { body, headers } = formWith(randomUUID(), metadata({ description: note }), file('a.csv', 'a,b\n'))
      return await evidence.caller.call(principal, 'POST', '/api/v1/evidence', {
        body,
        headers: { ...headers, ...key },
      })
    }
    const [first, second, other] = [await send('one'), await send('one'), await send('two')]
    expect([first.status, second.status, second.headers['idempotent-replayed']]).toEqual([201, 201, 'true'])
    expect(second.text).toBe(first.text)
    expect(other).toMatchObject({ status: 422, json: { code: 'idempotency_key_reused' } })
    expect(await filesOf(principal.tenantId)).toHaveLength(1)
  })

  test('creates one resumable upload and repeats the first response, with every header of the protocol', async () => {
    const principal = uploader()
    const begin = async (key: string) =>
      await evidence.caller.call(principal, 'POST', '/api/v1/evidence/uploads', {
        headers: {
          'tus-resumable': '1.0.0',
          'upload-length': '5',
          'upload-metadata': 'filename YS5jc3Y=',
          'idempotency-key': key,
        },
      })
    const key = randomUUID()
    const [first, second, other] = [await begin(key), await begin(key), await begin(randomUUID())]
    expect([first.status, second.status, other.status]).toEqual([201, 201, 201])
    const ofDelivery = ['date', 'connection', 'keep-alive', 'x-request-id', 'idempotent-replayed']
    const headersOf = ({ headers }: typeof first) =>
      Object.fromEntries(Object.entries(headers).filter(([name]) => !ofDelivery.includes(name)))
    expect(first.headers).toMatchObject({ 'tus-resumable': '1.0.0', 'upload-expires': expect.any(String) })
    expect(headersOf(second)).toEqual(headersOf(first))
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(other.headers['location']).not.toBe(first.headers['location'])
    const rows = 'select from evidence.upload where tenant_id = $1'
    expect(await evidence.rows(rows, [principal.tenantId])).toHaveLength(2)
  })

  test.each([
    ['of another length', { 'upload-length': '6' }],
    ['of a file with another name', { 'upload-metadata': 'filename Yi5jc3Y=' }],
  ])('is rejected as a resumable upload that is %s, and creates no other', async (_how, other) => {
    const principal = uploader()
    const begin = async (more: object) =>
      await evidence.caller.call(principal, 'POST', '/api/v1/evidence/uploads', {
        headers: {
          'tus-resumable': '1.0.0',
          'upload-length': '5',
          'upload-metadata': 'filename YS5jc3Y=',
          'idempotency-key': 'one',
          ...more,
        },
      })
    expect(await begin({})).toMatchObject({ status: 201 })
    expect(await begin(other)).toMatchObject({ status: 422, json: { code: 'idempotency_key_reused' } })
    const rows = 'select from evidence.upload where tenant_id = $1'
    expect(await evidence.rows(rows, [principal.tenantId])).toHaveLength(1)
  })

  test.each([
    ['with other bytes', { body: 'a,b\n1,3\n' }, 'a.csv'],
    ['with bytes missing', { body: 'a,b\n' }, 'a.csv'],
    ['under another name', { body: 'a,b\n1,2\n' }, 'b.csv'],
  ])('is rejected %s, and stores no other file', async (_how, other, name) => {
    const principal = uploader()
    const headers = { 'content-type': 'text/csv', 'idempotency-key': randomUUID() }
    expect(await upload(evidence.caller, principal, { body: 'a,b\n1,2\n', headers })).toMatchObject({ status: 201 })
    const second = await upload(evidence.caller, principal, { ...other, headers }, name)
    expect([second.status, second.json]).toMatchObject([422, { code: 'idempotency_key_reused' }])
    expect(await filesOf(principal.tenantId)).toHaveLength(1)
  })
})
