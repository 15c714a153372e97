/**
 * @promise Keys and secrets: The owner of a key gets a mail when the key is leaked, revoked or about to expire, and no owner of another tenant does.
 * @promise Operation: A mailbox that refuses a mail ends that delivery only.
 */

import { randomBytes, randomUUID } from 'node:crypto'
import { webhookDeliverySchema, webhookSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startMailServer } from './mail-server.ts'
import { makeWorld } from './support.ts'
import { change, createEndpoint, deleteEndpoints, person, webhooksOnly } from './webhook-support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller
let server: Awaited<ReturnType<typeof startMailServer>>

beforeAll(async () => {
  world = await makeWorld()
  server = await startMailServer()
  universe = await world.spawnUniverse()
  sync = await world.startSync(universe.url, { ...webhooksOnly, ...server.settings })
  caller = world.syncCaller(sync.url)
})
afterEach(async () => await deleteEndpoints(world.rows))
afterAll(async () => {
  await sync.close()
  await universe.stop()
  await server.close()
  await world.close()
})

const url = 'mailto:{key_owner}'
const events = ['key.expiring', 'key.expired', 'key.leaked', 'key.revoked']
const waiting = { timeout: 60_000, interval: 100 }

/** A tenant with an endpoint that mails owners. */
async function openTenant(body: object = {}) {
  const tenant = person()
  await world.rows('insert into keys.tenant (tenant_id, slug, name) values ($1, $2, $3)', [
    tenant.tenantId,
    `t-${tenant.tenantId}`,
    'Harbourline',
  ])
  const { id } = await createEndpoint(caller, tenant, { url, events, ...body })
  return { tenant, id }
}

type Owner = readonly [type: string | null, id: string | null, name: string | null, contact: string | null]
const teamAt = (contact: string): Owner => ['team', null, 'Security', contact]
const personOf = (id: string): Owner => ['person', id, 'Ada Lund', null]
const nobody: Owner = [null, null, null, null]

async function newKey({ tenantId }: Principal, owner: Owner): Promise<string> {
  const [row] = await world.rows(
    `insert into keys.api_key (tenant_id, hash, last_four, label, scopes, created_by_type, created_by_id, created_by_label,
       expires_at, owner_type, owner_id, owner_name, owner_contact)
     values ($1, $2, 'x7Qa', 'Nightly export', '{read:findings}', 'machine', 'm', 'M', now() + interval '90 days', $3, $4, $5, $6)
     returning id`,
    [tenantId, randomBytes(32), ...owner],
  )
  return String(row?.['id'])
}

/** Revokes a key as its service does. */
async function revoke({ tenantId }: Principal, id: string, by = 'user'): Promise<void> {
  await world.rows(
    `with revoked as (
       update keys.api_key set revoked_at = now(), revoked_by_type = $3, revoked_by_id = 'x', revoked_by_label = 'X' where id = $2)
     insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label)
     values ($1, $2, 'revoked', $3, 'x', 'X')`,
    [tenantId, id, by],
  )
}

async function announce({ tenantId }: Principal, id: string): Promise<void> {
  await world.rows('insert into keys.expiry_notice (tenant_id, key_id, days) values ($1, $2, 7)', [tenantId, id])
}

/** A person who has signed in with this address, as the directory knows them. */
async function newMember({ tenantId }: Principal, name: string, address: string): Promise<void> {
  await world.rows(
    `insert into keys.member (tenant_id, id, name, roles, first_seen_at, last_seen_at, directory_hash)
     values ($1, $2, 'Ada Lund', '{viewer}', now(), now(), tenancy.hash_name($1, 'emails.value', $3))`,
    [tenantId, name, address],
  )
}

async function newScimUser({ tenantId }: Principal, address: string, isActive = true): Promise<void> {
  const content = { userName: address, active: isActive, emails: [{ value: address, primary: true }] }
  await world.rows(
    `insert into sync.scim_user (tenant_id, id, user_name, person_key, active, content)
     values ($1, gen_random_uuid(), $2, $2, $4, $3)`,
    [tenantId, address, JSON.stringify(content), isActive],
  )
}

async function deliveriesOf(tenant: Principal, id: string) {
  const answer = await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}/deliveries`)
  return webhookDeliverySchema.array().parse(answer.json)
}

/** The deliveries about a key once none waits for its first attempt, oldest first. */
async function outcomesOf(tenant: Principal, id: string, key: string, count = 1) {
  const read = async () =>
    (await deliveriesOf(tenant, id)).filter((each) => each.resource_id === key && each.attempts > 0).toReversed()
  await expect.poll(async () => (await read()).length, waiting).toBe(count)
  return (await read()).map(({ type, state, error }) => [type, state, error] as const)
}

describe('an endpoint for owners is refused', () => {
  test.each([['*'], ['key.*'], ['key.created'], ['key.revoked', 'finding.created']])('for %s', async (...refused) => {
    const tenant = person()
    const answer = await caller.call(tenant, 'POST', '/api/v1/webhooks', { body: { url, events: refused } })
    expect(answer).toMatchObject({ status: 422, json: { errors: [{ pointer: '/events' }] } })
  })

  test('if a change would give it other events, or its events another recipient', async () => {
    const { tenant, id } = await openTenant()
    expect((await change(caller, tenant, id, { events: ['*'] })).status).toBe(422)
    expect((await change(caller, tenant, id, { events: ['key.leaked'] })).status).toBe(200)
    const { id: fixed } = await createEndpoint(caller, tenant, { url: 'mailto:soc@bank.example', events: ['*'] })
    expect((await change(caller, tenant, fixed, { url })).status).toBe(422)
  })

  test.each(['mailto:{owner}', 'mailto:{key_owner},soc@bank.example', 'mailto:{KEY_OWNER}'])(
    'with %s',
    async (other) => {
      const answer = await caller.call(person(), 'POST', '/api/v1/webhooks', { body: { url: other, events } })
      expect(answer).toMatchObject({ status: 422, json: { errors: [{ pointer: '/url' }] } })
    },
  )
})

describe('the recipient is', () => {
  test('the contact address of a team, and the mail names the key', async () => {
    const { tenant, id } = await openTenant()
    const key = await newKey(tenant, teamAt('soc@team.example'))
    await announce(tenant, key)
    expect(await outcomesOf(tenant, id, key)).toEqual([['key.expiring', 'delivered', null]])
    const [mail] = server.mailsTo('soc@team.example')
    expect(mail?.to).toEqual(['soc@team.example'])
    expect(mail?.content).toContain('Key: Nightly export (ends with x7Qa)')
  })

  test('the address of a person whom SCIM has brought', async () => {
    const { tenant, id } = await openTenant()
    await newMember(tenant, 'ada', 'ada@scim.example')
    await newScimUser(tenant, 'ada@scim.example')
    const key = await newKey(tenant, personOf('ada'))
    await revoke(tenant, key)
    expect(await outcomesOf(tenant, id, key)).toEqual([['key.revoked', 'delivered', null]])
    expect(server.mailsTo('ada@scim.example')).toHaveLength(1)
  })

  test('the address of a person whom an authoritative connector has brought, unless too many people match', async () => {
    const { tenant, id } = await openTenant()
    await newMember(tenant, 'bo', 'bo@hr.example')
    const personId = randomUUID()
    await world.rows(
      `insert into universe.person (tenant_id, id, external_id, name, email, active) values ($1, $2, 'P1', 'Bo', 'bo@hr.example', true)`,
      [tenant.tenantId, personId],
    )
    await world.rows(
      `insert into tenancy.directory_name (tenant_id, hash, person_id, is_active, is_current, source)
       values ($1, tenancy.hash_name($1, 'emails.value', 'bo@hr.example'), $2, true, true, 'people')`,
      [tenant.tenantId, personId],
    )
    const key = await newKey(tenant, personOf('bo'))
    await revoke(tenant, key)
    expect(await outcomesOf(tenant, id, key)).toEqual([['key.revoked', 'delivered', null]])
    expect(server.mailsTo('bo@hr.example')).toHaveLength(1)
    // The universe finds nobody for certain once more than 1,000 people match.
    await world.rows(
      `insert into universe.person (tenant_id, id, external_id, name, active)
       select $1, gen_random_uuid(), 'N' || number, $2, true from generate_series(1, 1000) as number`,
      [tenant.tenantId, personId],
    )
    const later = await newKey(tenant, personOf('bo'))
    await revoke(tenant, later)
    expect(await outcomesOf(tenant, id, later)).toEqual([
      ['key.revoked', 'skipped', expect.stringMatching(/no e-mail address/)],
    ])
    expect(server.mailsTo('bo@hr.example')).toHaveLength(1)
  })

  test('nobody without an owner or address, and the log says why', async () => {
    const { tenant, id } = await openTenant()
    await newMember(tenant, 'cy', 'cy@bank.example')
    await newMember(tenant, 'di', 'di@bank.example')
    await newScimUser(tenant, 'di@bank.example', false)
    const other = await openTenant()
    // The same person of another tenant has an address.
    await newMember(other.tenant, 'cy', 'cy@bank.example')
    await newScimUser(other.tenant, 'cy@bank.example')
    const keys: (readonly [key: string, reason: RegExp])[] = []
    for (const [owner, reason] of [
      [nobody, /has no owner/],
      [personOf('stranger'), /no e-mail address/],
      [personOf('cy'), /no e-mail address/],
      [personOf('di'), /has left/],
    ] as const) {
      const key = await newKey(tenant, owner)
      await revoke(tenant, key)
      keys.push([key, reason])
    }
    const theirs = await newKey(other.tenant, personOf('cy'))
    await revoke(other.tenant, theirs)
    for (const [key, reason] of keys) {
      expect(await outcomesOf(tenant, id, key)).toEqual([['key.revoked', 'skipped', expect.stringMatching(reason)]])
    }
    expect(await outcomesOf(other.tenant, other.id, theirs)).toEqual([['key.revoked', 'delivered', null]])
    expect(server.mailsTo('cy@bank.example')).toHaveLength(1)
    const { json } = await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}`)
    expect(webhookSchema.parse(json)).toMatchObject({ state: 'enabled', failing_since: null, pending: 0 })
  })

  test('nobody for a test event', async () => {
    const { tenant, id } = await openTenant()
    await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/deliveries`, { body: {} })
    expect(await outcomesOf(tenant, id, id)).toEqual([
      ['webhook.test', 'skipped', expect.stringMatching(/not about a key/)],
    ])
  })
})

test('a leaked key is one mail, and a revoked key is one too', async () => {
  const { tenant, id } = await openTenant()
  const [leaked, revoked] = [
    await newKey(tenant, teamAt('leaks@team.example')),
    await newKey(tenant, teamAt('revokes@team.example')),
  ]
  await revoke(tenant, leaked, 'reporter')
  await revoke(tenant, revoked)
  expect(await outcomesOf(tenant, id, revoked)).toEqual([['key.revoked', 'delivered', null]])
  expect(await outcomesOf(tenant, id, leaked, 2)).toEqual([
    ['key.leaked', 'delivered', null],
    ['key.revoked', 'skipped', expect.stringMatching(/key\.leaked/)],
  ])
  expect(server.mailsTo('leaks@team.example')).toHaveLength(1)
  // The control: an endpoint that does not get key.leaked.
  const other = await openTenant({ events: ['key.revoked'] })
  const key = await newKey(other.tenant, teamAt('leaks@team.example'))
  await revoke(other.tenant, key, 'reporter')
  expect(await outcomesOf(other.tenant, other.id, key)).toEqual([['key.revoked', 'delivered', null]])
})

test('a refused mailbox ends its delivery, a full one is tried again, and neither holds up the endpoint', async () => {
  const { tenant, id } = await openTenant()
  const [unknown, full] = [
    await newKey(tenant, teamAt('unknown@x.example')),
    await newKey(tenant, teamAt('full@x.example')),
  ]
  for (const key of [unknown, full]) await revoke(tenant, key)
  expect(await outcomesOf(tenant, id, unknown)).toEqual([['key.revoked', 'failed', expect.stringContaining('550')]])
  expect(await outcomesOf(tenant, id, full)).toEqual([['key.revoked', 'pending', expect.stringContaining('452')]])
  const read = async () => webhookSchema.parse((await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}`)).json)
  expect(await read()).toMatchObject({ state: 'enabled', failing_since: null, last_error: null })
  // After three days it is given up, and the endpoint stays enabled.
  await world.rows(
    `update sync.webhook_delivery set first_attempt_at = now() - interval '73 hours', next_attempt_at = now()
      where endpoint_id = $1 and state = 'pending'`,
    [id],
  )
  await expect
    .poll(async () => (await deliveriesOf(tenant, id)).find(({ resource_id: key }) => key === full)?.state, waiting)
    .toBe('failed')
  const last = await newKey(tenant, teamAt('last@x.example'))
  await revoke(tenant, last)
  expect(await outcomesOf(tenant, id, last)).toEqual([['key.revoked', 'delivered', null]])
  expect(await read()).toMatchObject({ state: 'enabled' })
  expect(JSON.stringify(await deliveriesOf(tenant, id))).not.toContain('x.example')
})

test('a mail that the server blocks for one owner is tried again, and the endpoint counts as working', async () => {
  const { tenant, id } = await openTenant()
  const key = await newKey(tenant, teamAt('blocked@x.example'))
  await revoke(tenant, key)
  expect(await outcomesOf(tenant, id, key)).toEqual([['key.revoked', 'pending', expect.stringContaining('554')]])
  const { json } = await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}`)
  expect(webhookSchema.parse(json)).toMatchObject({ state: 'enabled', failing_since: null, last_error: null })
})

test('a person whose stored address cannot be read makes no other mail be sent again', async () => {
  const { tenant, id } = await openTenant()
  await newMember(tenant, 'eve', 'eve@bank.example')
  await newScimUser(tenant, 'eve@bank.example')
  await world.rows(`update sync.scim_user set content = content || '{"name":"Eve"}' where tenant_id = $1`, [
    tenant.tenantId,
  ])
  const good = await newKey(tenant, teamAt('once@team.example'))
  const bad = await newKey(tenant, personOf('eve'))
  for (const key of [good, bad]) await revoke(tenant, key)
  expect(await outcomesOf(tenant, id, bad)).toEqual([['key.revoked', 'pending', expect.stringMatching(/tries again/)]])
  expect(await outcomesOf(tenant, id, good)).toEqual([['key.revoked', 'delivered', null]])
  expect(server.mailsTo('once@team.example')).toHaveLength(1)
})

test.each([
  ['two words', '"soc@evil.example x"@bank.example'],
  ['a comma', '"soc,ada"@bank.example'],
  ['angle brackets', '"<soc@evil.example>"@bank.example'],
  ['a group', '"soc: ada@evil.example;"@bank.example'],
])('a quoted address with %s reaches no other mailbox', async (_, contact) => {
  const { tenant, id } = await openTenant()
  const key = await newKey(tenant, teamAt(contact))
  await revoke(tenant, key)
  await outcomesOf(tenant, id, key)
  for (const other of ['soc@evil.example', 'ada@evil.example', 'soc', 'ada@bank.example', 'ada"@bank.example']) {
    expect(server.mailsTo(other)).toEqual([])
  }
  // The control: the endpoint still mails others.
  const last = await newKey(tenant, teamAt('quoted@team.example'))
  await revoke(tenant, last)
  expect(await outcomesOf(tenant, id, last)).toEqual([['key.revoked', 'delivered', null]])
})
