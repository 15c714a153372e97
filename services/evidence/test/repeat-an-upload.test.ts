import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startEvidence, upload, uploader } from './support.ts'

let evidence: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (evidence = await startEvidence()))
afterAll(async () => await evidence.close())

const filesOf = async (tenantId: string) =>
  await evidence.rows('select id from evidence.file where tenant_id = $1', [tenantId])

describe('an upload that is sent twice with one Idempotency-Key', () => {
  test('is received once, and gets the same receipt again', async () => {
    const principal = uploader()
    const request = { body: 'a,b\n1,2\n', headers: { 'content-type': 'text/csv', 'idempotency-key': randomUUID() } }
    const first = await upload(evidence.caller, principal, request)
    const second = await upload(evidence.caller, principal, request)
    expect([first.status, second.status]).toEqual([201, 201])
    expect(second.text).toBe(first.text)
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(await filesOf(principal.tenantId)).toHaveLength(1)
  })

  test.each([
    ['with other bytes', { body: 'a,b\n1,3\n' }, 'a.csv'],
    ['with bytes missing', { body: 'a,b\n' }, 'a.csv'],
    ['under another name', { body: 'a,b\n1,2\n' }, 'b.csv'],
  ])('is refused %s, and nothing more is received', async (_how, other, name) => {
    const principal = uploader()
    const headers = { 'content-type': 'text/csv', 'idempotency-key': randomUUID() }
    expect(await upload(evidence.caller, principal, { body: 'a,b\n1,2\n', headers })).toMatchObject({ status: 201 })
    const second = await upload(evidence.caller, principal, { ...other, headers }, name)
    expect([second.status, second.json]).toMatchObject([422, { code: 'idempotency_key_reused' }])
    expect(await filesOf(principal.tenantId)).toHaveLength(1)
  })
})
