import { Readable } from 'node:stream'
import { problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startEvidence, upload, uploaded, uploader } from './support.ts'

let late = 0
let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (service = await startEvidence({}, { now: () => Date.now() + late })))
afterAll(async () => await service.close())

test('an upload that outlives what the gateway vouches for is told so at once, leaves nothing, and learns what to do', async () => {
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
