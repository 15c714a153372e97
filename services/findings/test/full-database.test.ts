import { problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FindingsUnderTest, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const execute = async (text: string) =>
  await service.asSuperuser.system(async (tx) => await tx.execute({ text, values: [] }))

test.each(['findings.finding', 'findings.idempotency_record'])(
  'a change without space in PostgreSQL for %s returns 507, and reads still work',
  async (table) => {
    const tenant = newTenant()
    const headers = { 'idempotency-key': 'create-it' }
    await execute(`create function findings.has_no_room() returns trigger language plpgsql
      as $$ begin raise exception 'no room' using errcode = '53100'; end $$`)
    await execute(`create trigger has_no_room before insert on ${table}
      for each row execute function findings.has_no_room()`)
    try {
      const answer = await service.call(tenant, 'POST', path, { body: findingBody(), headers })
      expect([answer.status, answer.headers['retry-after']]).toEqual([507, '300'])
      expect(problemSchema.parse(answer.json).code).toBe('insufficient_storage')
      expect((await service.call(tenant, 'GET', path)).status).toBe(200)
    } finally {
      await execute('drop function findings.has_no_room cascade')
    }
    expect((await service.call(tenant, 'POST', path, { body: findingBody(), headers })).status).toBe(201)
  },
)
