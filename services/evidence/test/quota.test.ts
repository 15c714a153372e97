import { problemSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startEvidence, upload, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  service = await startEvidence({ POSTERN_EVIDENCE_TENANT_QUOTA_BYTES: '1000', POSTERN_EVIDENCE_RESUMABLE_MS: '60000' })
})
afterAll(async () => await service.close())

const tus = { 'tus-resumable': '1.0.0' }
const uploads = '/api/v1/evidence/uploads'

async function begin(principal: Principal, bytes: number) {
  const headers = { ...tus, 'upload-length': String(bytes), 'upload-metadata': 'filename YS5jc3Y=' }
  return await service.caller.call(principal, 'POST', uploads, { headers })
}

async function send(principal: Principal, bytes: number) {
  const { status } = await upload(service.caller, principal, {
    body: 'a'.repeat(bytes),
    headers: { 'content-type': 'text/csv' },
  })
  return status
}

async function append(principal: Principal, target: string, bytes: number) {
  return await service.caller.call(principal, 'PATCH', target, {
    body: 'a'.repeat(bytes),
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
  })
}

test('concurrent resumable uploads together cannot reserve more than the quota', async () => {
  const principal = uploader()
  const [keys, other] = [[principal, { ...principal, id: crypto.randomUUID() }], uploader()]
  const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => begin(keys[at % 2] ?? principal, 300)))
  const begun = answers.filter(({ status }) => status === 201)
  expect(begun).toHaveLength(3)
  for (const { status, json } of answers.filter((answer) => !begun.includes(answer))) {
    expect([status, problemSchema.parse(json).code]).toEqual([413, 'quota_exceeded'])
  }
  const rows = 'select from evidence.upload where tenant_id = $1'
  expect(await service.rows(rows, [principal.tenantId])).toHaveLength(3)
  // Other tenants are not affected.
  expect((await begin(other, 1000)).status).toBe(201)
})

test('the reservation of an upload stays until it is cancelled or expires', async () => {
  const principal = uploader()
  const locations: string[] = []
  for (const bytes of [600, 400]) locations.push((await begin(principal, bytes)).headers['location'] ?? '')
  const [first = '', second = ''] = locations
  expect(await send(principal, 1)).toBe(413)
  expect((await begin(principal, 1)).status).toBe(413)
  // It fills the quota to the last byte, with what it was promised itself.
  const whole = await append(principal, first, 600)
  expect([whole.status, whole.headers['postern-receipt']]).toEqual([204, expect.any(String)])
  expect(await send(principal, 1)).toBe(413)
  expect((await service.caller.call(principal, 'DELETE', second, { headers: tus })).status).toBe(204)
  expect(await send(principal, 100)).toBe(201)
  expect((await begin(principal, 300)).status).toBe(201)
  expect((await begin(principal, 1)).status).toBe(413)
  await service.rows(`update evidence.upload set expires_at = now() - interval '1 second' where tenant_id = $1`, [
    principal.tenantId,
  ])
  expect(await send(principal, 301)).toBe(413)
  expect((await begin(principal, 300)).status).toBe(201)
})

test('uploads without data for an hour lose their reservation; others keep it', async () => {
  const principal = uploader()
  const locations: string[] = []
  for (const bytes of [300, 700]) locations.push((await begin(principal, bytes)).headers['location'] ?? '')
  const sent = await append(principal, locations[0] ?? '', 100)
  expect(sent.headers['upload-offset']).toBe('100')
  // An empty piece counts as no data.
  expect((await append(principal, locations[1] ?? '', 0)).headers['upload-offset']).toBe('0')
  await service.rows(`update evidence.upload set created_at = now() - interval '61 minutes' where tenant_id = $1`, [
    principal.tenantId,
  ])
  expect(await send(principal, 701)).toBe(413)
  expect(await send(principal, 700)).toBe(201)
  // After the hour the upload may continue, but is rejected at the end if the quota is used up.
  expect((await append(principal, locations[1] ?? '', 700)).status).toBe(413)
})

test('an upload whose reservation has lapsed must reserve again, without taking another’s', async () => {
  const principal = uploader()
  const first = (await begin(principal, 600)).headers['location'] ?? ''
  const age = `update evidence.upload set created_at = now() - interval '61 minutes' where tenant_id = $1`
  await service.rows(age, [principal.tenantId])
  const second = (await begin(principal, 600)).headers['location'] ?? ''
  expect((await append(principal, first, 1)).status).toBe(413)
  // Others' uploads are not visible, with or without quota.
  const other = { ...principal, id: crypto.randomUUID() }
  expect((await append(other, first, 1)).status).toBe(404)
  expect((await append(principal, second, 600)).status).toBe(204)
  expect((await append(principal, first, 1)).status).toBe(413)
  // Once there is quota again, the upload continues with a reservation for its whole length.
  const third = (await begin(principal, 400)).headers['location'] ?? ''
  await service.rows(`${age} and id::text = $2`, [principal.tenantId, third.split('/').at(-1)])
  expect((await append(principal, third, 1)).status).toBe(204)
  expect(await send(principal, 1)).toBe(413)
  const rest = await service.caller.call(principal, 'PATCH', third, {
    body: 'a'.repeat(399),
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '1' },
  })
  expect(rest.headers['postern-receipt']).toBeDefined()
})

test('lapsed uploads that continue while others end do not deadlock', async () => {
  const principal = uploader()
  const locations = await Promise.all(
    Array.from({ length: 8 }, async () => (await begin(principal, 100)).headers['location'] ?? ''),
  )
  await service.rows(`update evidence.upload set created_at = now() - interval '61 minutes' where tenant_id = $1`, [
    principal.tenantId,
  ])
  const answers = await Promise.all(locations.map(async (location) => await append(principal, location, 100)))
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 204))
})

test('uploads that begin and files that arrive at once stay within the quota together', async () => {
  const principal = uploader()
  const outcomes = await Promise.all(
    Array.from({ length: 16 }, async (_, at) =>
      at % 2 === 0 ? (await begin(principal, 150)).status : await send(principal, 150),
    ),
  )
  expect(outcomes.filter((status) => status === 201)).toHaveLength(6)
  expect(outcomes.filter((status) => status === 413)).toHaveLength(10)
})
