import { Readable } from 'node:stream'
import { problemSchema } from '@postern/contracts'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ServiceUnavailableError } from '@postern/service-client'
import { startEvidence, upload, uploaded, uploader } from './support.ts'

let late = 0
let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (service = await startEvidence({}, { now: () => Date.now() + late })))
afterAll(async () => await service.close())

afterEach(() => (late = 0))

test('an upload that outlives its assertion fails at once with advice, and leaves no bytes', async () => {
  const principal = uploader()
  const { size_bytes: control } = await uploaded(service.caller, principal, 'in time')
  expect(control).toBe(7)

  const body = new Readable({ read: () => undefined })
  body.push(Buffer.alloc(1000, 'a'))
  const answered = upload(service.caller, principal, { body, headers: { 'content-type': 'text/csv' } })
  await expect.poll(async () => await service.filesIn('incoming')).toHaveLength(1)
  late = 61_000
  body.push(Buffer.alloc(1000, 'a'))
  const answer = await answered
  body.destroy()
  expect(answer.status).toBe(408)
  expect(problemSchema.parse(answer.json)).toMatchObject({
    code: 'request_timeout',
    detail: expect.stringContaining('POST /api/v1/evidence/uploads'),
  })
  await expect.poll(async () => await service.filesIn('incoming')).toEqual([])
  expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
})

test.each([
  ['before the universe is asked', false],
  ['while the universe is asked', true],
])('an upload whose bytes use up that time fails too, %s once more', async (_when, isAsked) => {
  const asked: number[] = []
  const lookUp = async (_request: unknown, addresses: readonly string[]) => {
    asked.push(late)
    // Before the bytes, behind them, and once they are in their place.
    if (asked.length >= (isAsked ? 3 : 2)) late = 61_000
    if (asked.length >= 3)
      throw new ServiceUnavailableError('The universe service', new Error('the assertion has expired'))
    return addresses.map(() => ({ id: '01234567-89ab-7def-8123-456789abcdef', status: 'in_review' as const }))
  }
  const universe = { lookUp, close: async () => undefined }
  const other = await startEvidence({}, { now: () => Date.now() + late, universe })
  try {
    const principal = uploader()
    const target = '/api/v1/evidence?file_name=a.csv&test_procedure=ext:SOX-1'
    const answer = await other.caller.call(principal, 'POST', target, { body: 'a,b' })
    expect(problemSchema.parse(answer.json)).toMatchObject({ status: 408, code: 'request_timeout' })
    expect(asked.length >= 3).toBe(isAsked)
    expect(await other.filesIn(`settling/${principal.tenantId}`)).toEqual([])
    expect(await other.rows('select from evidence.file')).toEqual([])
  } finally {
    await other.close()
  }
})
