import { generateKey } from '@postern/api-key'
import { apiKeyEventSchema, createdApiKeySchema, problemSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KeysUnderTest, getKey, keyBody, newKey, newTenant, path, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const team = { type: 'team', name: 'Security operations', contact: 'soc@harbourline.example' }

async function patch(admin: Principal, key: { id: string; etag: string }, body: unknown) {
  return await service.call(admin, 'PATCH', `${path}/${key.id}`, { body, headers: { 'if-match': key.etag } })
}

async function addMember({ tenantId }: Principal, id: string, name: string): Promise<void> {
  const people = [{ tenantId, id, name, roles: ['viewer'], lastSeenAt: Date.now() }]
  await service.ask(internalPaths.usage, { uses: [], denials: [], people })
}

/** As a directory does it. */
async function deactivate({ tenantId }: Principal, id: string): Promise<void> {
  await service.asSuperuser.system(
    async (tx) =>
      await tx.execute(sql('update keys.member set left_at = now() where tenant_id = $1 and id = $2', tenantId, id)),
  )
}

describe('the owner of a key', () => {
  test('is the person who creates it unless another one is named', async () => {
    const admin = await newTenant(service)
    expect(await newKey(service, admin)).toMatchObject({
      owner: { type: 'person', id: 'ada', name: 'Ada Lund', contact: null, left_at: null },
      note: null,
    })
    await addMember(admin, 'kofi', 'Kofi Mensah')
    const key = await newKey(service, admin, { owner: { type: 'person', id: 'kofi' }, note: 'For the dashboard' })
    expect(key).toMatchObject({ owner: { id: 'kofi', name: 'Kofi Mensah' }, note: 'For the dashboard' })
  })

  test('is nobody for a key that an operator creates without one', async () => {
    const { tenantId } = await newTenant(service)
    const answer = await service.call({ tenantId, kind: 'operator', id: 'root', label: 'Operator' }, 'POST', path, {
      body: keyBody(),
    })
    expect(createdApiKeySchema.parse(answer.json).owner).toBeNull()
  })

  test('can become a team or another person, and the history shows it', async () => {
    const admin = await newTenant(service)
    await addMember(admin, 'kofi', 'Kofi Mensah')
    const key = await newKey(service, admin)
    const first = await patch(admin, key, { owner: team, note: 'Line one\nLine two' })
    expect(first.json).toMatchObject({
      owner: { ...team, id: null, left_at: null },
      note: 'Line one\nLine two',
      version: 2,
    })
    const etag = first.headers['etag'] ?? ''
    const second = await patch(admin, { ...key, etag }, { owner: { type: 'person', id: 'kofi' }, note: null })
    expect(second.json).toMatchObject({ owner: { id: 'kofi', contact: null }, note: null, version: 3 })
    const { json } = await service.call(admin, 'GET', `${path}/${key.id}/events`)
    const [latest] = apiKeyEventSchema.array().parse(json)
    expect(latest).toMatchObject({
      type: 'updated',
      actor: { label: 'Ada Lund' },
      detail: {
        changes: {
          owner: { from: { name: 'Security operations' }, to: { id: 'kofi', name: 'Kofi Mensah' } },
          note: { from: 'Line one\nLine two', to: null },
        },
      },
    })
  })

  test('is kept by a rotation, as is the note', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin, { owner: team, note: 'A note' })
    const { json } = await service.call(admin, 'POST', `${path}/${key.id}/rotate`, { body: {} })
    expect(json).toMatchObject({ owner: team, note: 'A note' })
  })

  test('is flagged as soon as the directory deactivates the person, with another ETag', async () => {
    const admin = await newTenant(service)
    await addMember(admin, 'kofi', 'Kofi Mensah')
    const key = await newKey(service, admin, { owner: { type: 'person', id: 'kofi' } })
    await deactivate(admin, 'kofi')
    const read = await service.call(admin, 'GET', `${path}/${key.id}`)
    expect(read.json).toMatchObject({ owner: { id: 'kofi', left_at: expect.stringMatching(/Z$/) }, version: 1 })
    expect(read.headers['etag']).not.toBe(key.etag)
    // The flag is no change of the key.
    expect((await patch(admin, key, { owner: team })).status).toBe(200)
    expect(await getKey(service, admin, key.id)).toMatchObject({ owner: { left_at: null } })
  })

  test('selects keys in the list', async () => {
    const admin = await newTenant(service)
    await addMember(admin, 'kofi', 'Kofi Mensah')
    await newKey(service, admin)
    const ofKofi = await newKey(service, admin, { owner: { type: 'person', id: 'kofi' } })
    const ofTeam = await newKey(service, admin, { owner: team })
    const ids = async (owner: string) => {
      const { json } = await service.call(admin, 'GET', `${path}?owner=${encodeURIComponent(owner)}`)
      return Array.isArray(json) ? json.map(({ id }: { id: string }) => id) : []
    }
    expect(await ids('kofi')).toEqual([ofKofi.id])
    expect(await ids(team.contact)).toEqual([ofTeam.id])
    expect(await ids('nobody')).toEqual([])
  })
})

describe('an owner is refused', () => {
  test('if no person of the tenant has the id, also if a person of another tenant has it', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    await addMember(other, 'zoe', 'Zoe Marsh')
    const key = await newKey(service, admin)
    for (const id of ['zoe', 'nobody']) {
      const answer = await patch(admin, key, { owner: { type: 'person', id } })
      expect(answer.status).toBe(422)
      expect(problemSchema.parse(answer.json).errors).toMatchObject([{ pointer: '/owner/id', code: 'unknown_person' }])
      const body = keyBody({ owner: { type: 'person', id } })
      expect((await service.call(admin, 'POST', path, { body })).status).toBe(422)
    }
    expect((await newKey(service, other, { owner: { type: 'person', id: 'zoe' } })).owner?.name).toBe('Zoe Marsh')
  })

  test('if the directory deactivated the person', async () => {
    const admin = await newTenant(service)
    await addMember(admin, 'kofi', 'Kofi Mensah')
    await deactivate(admin, 'kofi')
    const answer = await patch(admin, await newKey(service, admin), { owner: { type: 'person', id: 'kofi' } })
    expect(problemSchema.parse(answer.json).errors).toMatchObject([{ pointer: '/owner/id', code: 'has_left' }])
  })

  test.each([
    [{ owner: null }, '/owner'],
    [{ owner: { type: 'team', name: 'SOC' } }, '/owner/contact'],
    [{ owner: { type: 'team', name: 'SOC', contact: 'nobody' } }, '/owner/contact'],
    [{ owner: { type: 'team', name: 'S\u0007', contact: 'soc@harbourline.example' } }, '/owner/name'],
    [{ owner: { type: 'robot', id: 'x' } }, '/owner/type'],
    [{ owner: { type: 'person', id: '' } }, '/owner/id'],
    [{ note: '' }, '/note'],
    [{ note: 'a\u0000b' }, '/note'],
    [{ note: 'x'.repeat(1001) }, '/note'],
  ])('for an invalid body: %j', async (body, pointer) => {
    const admin = await newTenant(service)
    const answer = await patch(admin, await newKey(service, admin), body)
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
  })

  test('if its name contains a key, as is a note', async () => {
    const admin = await newTenant(service)
    const { value } = generateKey()
    const key = await newKey(service, admin)
    for (const [body, pointer] of [
      [{ note: `the key is ${value}` }, '/note'],
      [{ owner: { ...team, name: value } }, '/owner/name'],
    ] as const) {
      for (const answer of [
        await patch(admin, key, body),
        await service.call(admin, 'POST', path, { body: keyBody(body) }),
      ]) {
        expect(answer.status).toBe(422)
        expect(problemSchema.parse(answer.json).errors).toMatchObject([{ pointer, code: 'holds_key' }])
      }
    }
  })

  test('for a revoked key, and with an older version', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    expect((await patch(admin, key, { owner: team })).status).toBe(200)
    expect((await patch(admin, key, { note: 'late' })).json).toMatchObject({ code: 'precondition_failed' })
    const { headers } = await revoke(service, admin, key.id)
    const answer = await patch(admin, { ...key, etag: headers['etag'] ?? '' }, { owner: team })
    expect(answer.json).toMatchObject({ code: 'conflict' })
  })

  test('by PostgreSQL if a key had one and would have none, or half of one', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const none = 'owner_type = null, owner_id = null, owner_name = null'
    for (const assignment of [none, 'owner_id = null', `owner_contact = 'x'`, `owner_type = 'robot'`]) {
      const changing = service.asSuperuser.system(
        async (tx) => await tx.execute(sql(`update keys.api_key set ${assignment} where id = $1`, id)),
      )
      await expect(changing).rejects.toThrow(/owner/)
    }
    expect((await getKey(service, admin, id)).owner?.id).toBe('ada')
  })
})
