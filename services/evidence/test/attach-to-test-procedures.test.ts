import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { problemSchema, receiptSchema } from '@postern/contracts'
import { type CallAnswer, type Principal, startTestProxy } from '@postern/local-stack/testing'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { file, form, metadata } from './form.ts'
import { findsMalware } from './people.ts'
import { makeEnvironment, startEvidence, startEvidenceWithUniverse, uploaded, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidenceWithUniverse>>
/** One without a universe. */
let alone: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  service = await startEvidenceWithUniverse({}, { scanner: findsMalware })
  alone = await startEvidence()
})
afterAll(async () => {
  await service.close()
  await alone.close()
})

type Evidence = Pick<typeof service, 'caller'>

const base64 = (text: string) => Buffer.from(text).toString('base64')
const tus = { 'tus-resumable': '1.0.0' }
const without = ({ text }: CallAnswer) => text.replace(/"instance":"[^"]*"/, '')
const problemOf = ({ json }: CallAnswer) => problemSchema.parse(json)

async function countOf({ tenantId }: Principal): Promise<number> {
  return (await service.rows('select from evidence.file where tenant_id = $1', [tenantId])).length
}

async function revise(who: Principal, id: string, body: Readable | string, query = '') {
  const target = `/api/v1/evidence/${id}/revisions?file_name=a.csv${query}`
  return await service.caller.call(who, 'POST', target, { body })
}

async function begin({ caller }: Evidence, who: Principal, addresses: readonly string[], length = 2) {
  const said = JSON.stringify({ test_procedures: addresses })
  const headers = {
    ...tus,
    'upload-length': String(length),
    'upload-metadata': `filename ${base64('a.csv')},metadata ${base64(said)}`,
  }
  return await caller.call(who, 'POST', '/api/v1/evidence/uploads', { headers })
}

/** Every way to say for what a file is evidence, and where each says what is wrong. */
const ways: [string, (at: Evidence, who: Principal, address: string) => Promise<CallAnswer>, object][] = [
  [
    'an upload',
    async ({ caller }, who, address) =>
      await caller.call(who, 'POST', `/api/v1/evidence?file_name=a.csv&test_procedure=${encodeURIComponent(address)}`, {
        body: 'a',
      }),
    { parameter: 'test_procedure' },
  ],
  [
    'a form',
    async ({ caller }, who, address) =>
      await caller.call(
        who,
        'POST',
        '/api/v1/evidence',
        form(metadata({ test_procedures: [address] }), file('a.csv', 'a'), file('b.csv', 'b')),
      ),
    { pointer: '/test_procedures/0' },
  ],
  ['a resumable upload', async (at, who, address) => await begin(at, who, [address]), { parameter: 'Upload-Metadata' }],
  [
    'a revision',
    async ({ caller }, who, address) => {
      const { id } = await uploaded(caller, who, 'one')
      const target = `/api/v1/evidence/${id}/revisions?file_name=a.csv&test_procedure=${encodeURIComponent(address)}`
      return await caller.call(who, 'POST', target, { body: 'two' })
    },
    { parameter: 'test_procedure' },
  ],
  [
    'an attachment',
    async ({ caller }, who, address) => {
      const { id } = await uploaded(caller, who, 'one')
      return await caller.call(who, 'POST', `/api/v1/evidence/${id}/attachments`, {
        body: { test_procedures: [address] },
      })
    },
    { pointer: '/test_procedures/0' },
  ],
]

describe.each(ways)('%s', (_what, send, place) => {
  test('for a missing test procedure, or one of another tenant, returns the same 404 and stores nothing', async () => {
    const [owner, other] = [uploader(), uploader()]
    await service.universe.push(other.tenantId, ['SOX-1'])
    const [theirs] = await service.rows('select id from universe.test_procedure where tenant_id = $1', [other.tenantId])
    for (const [unknown, foreign] of [
      ['ext:SOX-9', 'ext:SOX-1'],
      ['ref:TP-9999', 'ref:TP-0001'],
      [randomUUID(), String(theirs?.['id'])],
    ] as const) {
      const answer = await send(service, owner, unknown)
      expect(problemOf(answer)).toMatchObject({
        status: 404,
        code: 'not_found',
        errors: [{ ...place, code: 'unknown', detail: unknown }],
      })
      const another = await send(service, owner, foreign)
      expect(without(another).replace(foreign, unknown)).toBe(without(answer))
    }
    const attached = 'select from evidence.attachment where tenant_id = $1'
    expect(await service.rows(attached, [owner.tenantId])).toEqual([])
    for (const folder of ['incoming', `partial/${owner.tenantId}`, `settling/${owner.tenantId}`]) {
      expect(await service.filesIn(folder)).toEqual([])
    }
    expect((await send(service, other, 'ext:SOX-1')).status).toBe(201)
  })

  test('for a completed test procedure returns 409, and is accepted once the procedure is reopened', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'completed' })
    const answer = await send(service, principal, 'ref:TP-0001')
    expect(problemOf(answer)).toMatchObject({
      status: 409,
      code: 'procedure_locked',
      errors: [{ ...place, code: 'completed', detail: 'ref:TP-0001' }],
    })
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'in_progress' })
    expect((await send(service, principal, 'ref:TP-0001')).status).toBe(201)
  })

  test('returns 503 and stores nothing while the universe is unavailable', async () => {
    const principal = uploader()
    const answer = await send(alone, principal, 'ref:TP-0001')
    expect(problemOf(answer)).toMatchObject({ status: 503, code: 'service_unavailable' })
    expect(answer.headers['retry-after']).toBe('5')
    expect(await alone.rows('select from evidence.attachment')).toEqual([])
    expect(await alone.filesIn(`partial/${principal.tenantId}`)).toEqual([])
    // What names no test procedure needs no universe.
    await uploaded(alone.caller, principal, 'evidence')
  })
})

describe('evidence of a test procedure', () => {
  test('of a completed procedure gets no newer version until the procedure is reopened', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1', 'SOX-2'], { status: 'in_review' })
    const { id } = await uploaded(service.caller, principal, 'one')
    const attach = { body: { test_procedures: ['ext:SOX-1', 'ext:SOX-2'] } }
    await service.caller.call(principal, 'POST', `/api/v1/evidence/${id}/attachments`, attach)
    await service.universe.push(principal.tenantId, ['SOX-2'], { status: 'completed' })
    for (const query of ['', '&test_procedure=ext:SOX-1']) {
      const answer = await revise(principal, id, 'two', query)
      expect(problemOf(answer)).toMatchObject({ status: 409, code: 'procedure_locked' })
    }
    expect(await countOf(principal)).toBe(1)
    await service.universe.push(principal.tenantId, ['SOX-2'], { status: 'in_progress' })
    expect((await revise(principal, id, 'two')).status).toBe(201)
  })

  test('of a completed procedure is not replaced after versions in quarantine either', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'in_review' })
    const { id } = await uploaded(service.caller, principal, 'one')
    const attach = { body: { test_procedures: ['ext:SOX-1'] } }
    await service.caller.call(principal, 'POST', `/api/v1/evidence/${id}/attachments`, attach)
    const bad = receiptSchema.parse((await revise(principal, id, 'malware')).json)
    const worse = receiptSchema.parse((await revise(principal, bad.id, 'malware, again')).json)
    expect([bad.status, worse.status]).toEqual(['quarantined', 'quarantined'])
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'completed' })
    const answer = await revise(principal, worse.id, 'clean')
    expect(problemOf(answer)).toMatchObject({ status: 409, code: 'procedure_locked' })
    expect(await countOf(principal)).toBe(3)
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'in_progress' })
    const clean = receiptSchema.parse((await revise(principal, worse.id, 'clean')).json)
    // A file that was replaced before stays replaced.
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'completed' })
    expect((await revise(principal, clean.id, 'cleaner')).status).toBe(201)
  })

  test('gets no newer version if the procedure is completed while the bytes arrive', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'in_review' })
    const { id } = await uploaded(service.caller, principal, 'one')
    await service.caller.call(principal, 'POST', `/api/v1/evidence/${id}/attachments`, {
      body: { test_procedures: ['ext:SOX-1'] },
    })
    const body = new Readable({ read: () => undefined })
    body.push('t')
    const answered = revise(principal, id, body)
    await expect.poll(async () => await service.filesIn('incoming')).toHaveLength(1)
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'completed' })
    body.push('wo')
    body.push(null)
    expect(problemOf(await answered)).toMatchObject({ status: 409, code: 'procedure_locked' })
    expect(await countOf(principal)).toBe(1)
  })
})

describe('an upload whose test procedure is completed while its bytes arrive', () => {
  test.each([
    ['a body', 'text/csv', 'a,b', '\n1,2'],
    [
      'a form',
      'multipart/form-data; boundary=b',
      '--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"test_procedures":["ext:SOX-1"]}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\nContent-Type: text/csv\r\n\r\na,b',
      '\n1,2\r\n--b--\r\n',
    ],
  ])('returns 409 as %s, and stores nothing', async (what, contentType, head, rest) => {
    const query = what === 'a body' ? '?file_name=a.csv&test_procedure=ext:SOX-1' : ''
    for (const [status, expected] of [
      ['in_review', 201],
      ['completed', 409],
    ] as const) {
      const principal = uploader()
      await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'in_progress' })
      const body = new Readable({ read: () => undefined })
      body.push(head)
      const headers = { 'content-type': contentType }
      const answered = service.caller.call(principal, 'POST', `/api/v1/evidence${query}`, { body, headers })
      await expect.poll(async () => await service.filesIn('incoming')).toHaveLength(1)
      await service.universe.push(principal.tenantId, ['SOX-1'], { status })
      body.push(rest)
      body.push(null)
      const answer = await answered
      expect(answer.status, answer.text).toBe(expected)
      if (expected === 409) expect(problemOf(answer).code).toBe('procedure_locked')
      const files = await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])
      expect(files).toHaveLength(expected === 409 ? 0 : 1)
      for (const folder of ['incoming', `settling/${principal.tenantId}`]) {
        expect(await service.filesIn(folder)).toEqual([])
      }
    }
  })
})

describe('a resumable upload that ends', () => {
  test('after one of its test procedures was completed is stored, and its receipt names the others', async () => {
    const principal = uploader()
    await service.universe.push(principal.tenantId, ['SOX-1', 'SOX-2'])
    const { headers } = await begin(service, principal, ['ext:SOX-1', 'ext:SOX-2'])
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'in_review' })
    await service.universe.push(principal.tenantId, ['SOX-1'], { status: 'completed' })
    const last = await service.caller.call(principal, 'PATCH', headers['location'] ?? '', {
      body: 'ab',
      headers: { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
    })
    expect(decodeJwt(last.headers['postern-receipt'] ?? '')).toMatchObject({ test_procedures: ['ext:SOX-2'] })
    const rows = await service.rows('select from evidence.attachment where tenant_id = $1', [principal.tenantId])
    expect(rows).toHaveLength(1)
  })

  // Four processes start, one after the other.
  test(
    'while the universe is away loses nothing: asked again when it is back, it gives the receipt',
    { timeout: 90_000 },
    async () => {
      const environment = await makeEnvironment()
      const universe = await environment.spawnUniverse()
      const principal = uploader()
      await universe.push(principal.tenantId, ['SOX-1'])
      const first = await startEvidence({ POSTERN_UNIVERSE_URL: universe.url }, {}, environment)
      const { headers } = await begin(first, principal, ['ext:SOX-1'])
      await universe.stop()
      const target = headers['location'] ?? ''
      const last = await first.caller.call(principal, 'PATCH', target, {
        body: 'ab',
        headers: { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
      })
      expect(problemOf(last)).toMatchObject({ status: 503, code: 'service_unavailable' })
      const back = await environment.spawnUniverse()
      const second = await startEvidence({ POSTERN_UNIVERSE_URL: back.url }, {}, environment)
      const receipt = await second.caller.call(principal, 'HEAD', target, { headers: tus })
      expect(receipt.status).toBe(200)
      expect(decodeJwt(receipt.headers['postern-receipt'] ?? '')).toMatchObject({ test_procedures: ['ext:SOX-1'] })
      await back.stop()
      await first.stop()
      await second.close()
    },
  )
})

test('a complete upload waits for a universe that is briefly unavailable', { timeout: 60_000 }, async () => {
  const environment = await makeEnvironment()
  const universe = await environment.spawnUniverse()
  const principal = uploader()
  await universe.push(principal.tenantId, ['SOX-1'])
  // The first request precedes the upload. After the upload, the universe is unavailable twice.
  const answers: number[] = []
  const proxy = await startTestProxy(universe.url, async (_request, forward) => {
    const answer = answers.length === 1 || answers.length === 2 ? { status: 503 } : await forward()
    answers.push(answer.status)
    return answer
  })
  const here = await startEvidence({ POSTERN_UNIVERSE_URL: proxy.url }, {}, environment)
  const target = '/api/v1/evidence?file_name=a.csv&test_procedure=ext:SOX-1'
  const answer = await here.caller.call(principal, 'POST', target, { body: 'a,b' })
  expect(answers).toEqual([200, 503, 503, 200, 200])
  expect(answer.status).toBe(201)
  await universe.stop()
  await here.close()
  await proxy.close()
})

test('a test procedure named in three ways is attached once', async () => {
  const principal = uploader()
  await service.universe.push(principal.tenantId, ['SOX-1'])
  const [row] = await service.rows('select id from universe.test_procedure where tenant_id = $1', [principal.tenantId])
  const id = String(row?.['id'])
  const target = `/api/v1/evidence?file_name=a.csv&test_procedure=ref:TP-0001&test_procedure=ext:SOX-1&test_procedure=${id}`
  const answer = await service.caller.call(principal, 'POST', target, { body: 'a' })
  expect(receiptSchema.parse(answer.json).test_procedures).toEqual(['ref:TP-0001', 'ext:SOX-1', id])
  const attached = 'select test_procedure from evidence.attachment where tenant_id = $1'
  expect(await service.rows(attached, [principal.tenantId])).toEqual([{ test_procedure: id }])
})
