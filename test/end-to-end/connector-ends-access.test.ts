/**
 * @promise Edge: A person whom an authoritative connector deactivates loses the API and new sign-ins within five seconds.
 */

import { patchUrn } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { askAll, untilEverywhere } from '../support/ask-gateways.ts'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let stack: TestStack
let [byId, byAddress]: RunningIssuer[] = []

beforeAll(async () => {
  ;[byId, byAddress] = [await startIssuer(), await startIssuer()]
  const provider = {
    name: 'Staff',
    issuer: byId.url,
    subject: ['/uid'],
    directory: { match: '/uid', with: 'externalId' },
  }
  const other = {
    name: 'Addresses',
    issuer: byAddress.url,
    subject: ['/uid'],
    person_prefix: 'address:',
    directory: { match: '/email', with: 'emails.value' },
  }
  stack = await startTestStack({
    gateways: 2,
    env: { POSTERN_SIGN_IN: JSON.stringify({ providers: [provider, other] }) },
  })
})
afterAll(async () => {
  await stack.stop()
  await byId?.stop()
  await byAddress?.stop()
})

const identified = z.looseObject({ id: z.string() })
const noLimits = { max_deactivate_pct: 100, max_deactivate: 1000, min_rows: 0, max_change_pct: 100 }

/** `uid,name,active,email` */
type Row = readonly [uid: string, isActive: boolean, email?: string]

const people = (isActive: boolean, ...names: string[]): Row[] => names.map((name) => [name, isActive])

async function openTenant(name: string) {
  const tenant = await stack.createTenant(name)
  const { key } = await stack.createKey(tenant, { scopes: ['admin:sync'] })
  const [gateway = ''] = stack.gateways
  const etagOf = async (path: string) => ({
    'if-match': z.string().parse((await send(gateway, path, { key })).headers['etag']),
  })
  const call = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown, type?: string) => {
    const headers = type === undefined ? {} : { 'content-type': type }
    const sent = body === undefined ? {} : { body }
    const condition = method === 'PATCH' && type === undefined ? await etagOf(path) : {}
    const answer = await send(gateway, path, { key, method, headers: { ...headers, ...condition }, ...sent })
    expect(answer.status, answer.text).toBeLessThan(300)
    return answer.json
  }
  const connect = async (of: string, fields: object = {}): Promise<string> => {
    const body = { key: of, name: of, type: 'csv', dataset: 'people', safety: noLimits, authoritative: true, ...fields }
    return identified.parse(await call('POST', '/api/v1/connectors', body)).id
  }
  const begin = async (connector: string, ...rows: readonly Row[]): Promise<string> => {
    const lines = rows.map(([uid, isActive, email = '']) => `${uid},${uid},${isActive},${email}`)
    const csv = ['external_id,name,active,email', ...lines, ''].join('\n')
    return identified.parse(await call('POST', `/api/v1/connectors/${connector}/runs`, csv, 'text/csv')).id
  }
  const reach = async (id: string, status: string) => {
    const read = async () => await call('GET', `/api/v1/sync-runs/${id}`)
    await expect.poll(read, { timeout: 60_000, interval: 100 }).toMatchObject({ status })
    return z.looseObject({ diff_hash: z.string() }).parse(await read())
  }
  const run = async (connector: string, ...rows: readonly Row[]): Promise<void> => {
    await reach(await begin(connector, ...rows), 'succeeded')
  }
  const tokenOf = async (person: string) =>
    (await byId?.issue({ tenantId: tenant.id, roles: ['admin'], more: { uid: person } })) ?? ''
  const tokenOfAddress = async (email: string) =>
    (await byAddress?.issue({
      tenantId: tenant.id,
      roles: ['admin'],
      more: { uid: email, email, email_verified: true },
    })) ?? ''
  return { call, connect, run, begin, reach, tokenOf, tokenOfAddress }
}

const ask = async (token: string) => await askAll(stack.gateways, token)
const until = async (token: string, outcome: unknown) => await untilEverywhere(stack.gateways, token, outcome)

describe('a person whom an authoritative connector makes inactive', () => {
  test('loses access, and other people keep it', async () => {
    const { connect, run, tokenOf, tokenOfAddress } = await openTenant('connector-bank')
    const elsewhere = await openTenant('connector-other')
    const connector = await connect('hr')
    await run(connector, ['anna', true, 'Anna@bank.example'], ['bert', true])
    const [anna, bert, stranger] = [await tokenOf('anna'), await tokenOf('bert'), await tokenOf('stranger')]
    const address = await tokenOfAddress('anna@BANK.example')
    const there = await elsewhere.tokenOf('anna')
    for (const token of [anna, bert, stranger, address, there]) expect(await ask(token)).toEqual([200])
    await run(connector, ['anna', false, 'Anna@bank.example'], ['bert', true])
    await until(anna, 'person_inactive')
    expect(await ask(address)).toEqual(['person_inactive'])
    expect(await ask(await tokenOf('anna'))).toEqual(['person_inactive'])
    for (const token of [bert, stranger, there]) expect(await ask(token)).toEqual([200])
    await run(connector, ['anna', true, 'Anna@bank.example'], ['bert', true])
    await until(anna, 200)
  })

  test('loses access because the source no longer has the row', async () => {
    const { connect, run, tokenOf } = await openTenant('connector-missing')
    const connector = await connect('hr', { missing_policy: 'deactivate' })
    await run(connector, ['carl', true], ['dora', true])
    const [carl, dora] = [await tokenOf('carl'), await tokenOf('dora')]
    expect([await ask(carl), await ask(dora)]).toEqual([[200], [200]])
    await run(connector, ['dora', true])
    await until(carl, 'person_inactive')
    expect(await ask(dora)).toEqual([200])
  })

  test('keeps access if the connector is not authoritative, and loses it by the first run that is', async () => {
    const { call, connect, run, tokenOf } = await openTenant('connector-later')
    const connector = await connect('hr', { authoritative: false })
    const rows: readonly Row[] = [
      ['emil', false],
      ['fred', true],
    ]
    await run(connector, ...rows)
    const [emil, fred] = [await tokenOf('emil'), await tokenOf('fred')]
    expect([await ask(emil), await ask(fred)]).toEqual([[200], [200]])
    await call('PATCH', `/api/v1/connectors/${connector}`, { authoritative: true })
    // The source is as before.
    await run(connector, ...rows)
    await until(emil, 'person_inactive')
    expect(await ask(fred)).toEqual([200])
  })

  test('stays out when the connector is authoritative no longer, or retired', async () => {
    const { call, connect, run, tokenOf } = await openTenant('connector-retired')
    const connector = await connect('hr')
    await run(connector, ['gina', false], ['hugo', true])
    const [gina, hugo] = [await tokenOf('gina'), await tokenOf('hugo')]
    expect([await ask(gina), await ask(hugo)]).toEqual([['person_inactive'], [200]])
    await call('PATCH', `/api/v1/connectors/${connector}`, { authoritative: false })
    await run(connector, ['gina', false], ['hugo', false])
    expect([await ask(gina), await ask(hugo)]).toEqual([['person_inactive'], [200]])
    await call('DELETE', `/api/v1/connectors/${connector}`)
    expect([await ask(gina), await ask(hugo)]).toEqual([['person_inactive'], [200]])
    const successor = await connect('new-hr')
    await run(successor, ['gina', true])
    await until(gina, 200)
  })

  test('stays out when the connector is retired, until another source brings the person; other people keep access', async () => {
    const { call, connect, run, tokenOf } = await openTenant('connector-deleted')
    const connector = await connect('hr')
    const names = ['lars', 'mona', 'nils', 'otto', 'petra', 'rolf']
    await run(connector, ...people(false, 'lars', 'otto', 'rolf'), ...people(true, 'mona', 'nils', 'petra'))
    const [lars = '', mona = '', nils = '', otto = '', petra = '', rolf = ''] = await Promise.all(names.map(tokenOf))
    expect([await ask(lars), await ask(mona), await ask(nils)]).toEqual([['person_inactive'], [200], [200]])
    // While it decides about access.
    await call('DELETE', `/api/v1/connectors/${connector}`)
    expect([await ask(lars), await ask(mona), await ask(nils)]).toEqual([['person_inactive'], [200], [200]])
    // A push decides nothing. The gateways have not cached these people.
    await call('POST', '/api/v1/sync/people', [
      { external_id: 'otto', name: 'Otto', active: true },
      { external_id: 'petra', name: 'Petra', active: false },
    ])
    expect([await ask(otto), await ask(petra)]).toEqual([['person_inactive'], [200]])
    const user = { userName: 'rolf@bank.example', externalId: 'rolf', active: true }
    await call('POST', '/scim/v2/Users', JSON.stringify(user), 'application/scim+json')
    await until(rolf, 200)
    const successor = await connect('new-hr')
    await run(successor, ...people(true, 'lars', 'nils'), ...people(false, 'mona'))
    await until(lars, 200)
    await until(mona, 'person_inactive')
    expect(await ask(nils)).toEqual([200])
  })

  test('has no access by another source that has the person as active', async () => {
    const { call, connect, run, tokenOf } = await openTenant('connector-and-scim')
    const user = { userName: 'ines@bank.example', externalId: 'ines', active: true }
    const scim = async (method: 'POST' | 'PATCH', path: string, body: unknown) =>
      await call(method, `/scim/v2${path}`, JSON.stringify(body), 'application/scim+json')
    const { id } = identified.parse(await scim('POST', '/Users', user))
    const ines = await tokenOf('ines')
    expect(await ask(ines)).toEqual([200])
    const connector = await connect('hr')
    // The first row of the connector about her.
    await run(connector, ['ines', false])
    await until(ines, 'person_inactive')
    await run(connector, ['ines', true])
    await until(ines, 200)
    const operation = { op: 'replace', path: 'active', value: false }
    await scim('PATCH', `/Users/${id}`, { schemas: [patchUrn], Operations: [operation] })
    await until(ines, 'person_inactive')
    await run(connector, ['ines', true])
    expect(await ask(ines)).toEqual(['person_inactive'])
  })

  test('is out after a push that says so', async () => {
    const { call, connect, run, tokenOf } = await openTenant('connector-and-push')
    const connector = await connect('hr')
    await run(connector, ['jana', true], ['kurt', true])
    const [jana, kurt] = [await tokenOf('jana'), await tokenOf('kurt')]
    expect([await ask(jana), await ask(kurt)]).toEqual([[200], [200]])
    await call('POST', '/api/v1/sync/people', [{ external_id: 'jana', name: 'Jana', active: false }])
    await until(jana, 'person_inactive')
    expect(await ask(kurt)).toEqual([200])
  })
})

describe('people who lose access by a connector without becoming inactive', () => {
  const limited = { safety: { ...noLimits, max_deactivate: 2 } }

  test('are counted by the first run, which waits for approval', async () => {
    const { call, connect, begin, reach, tokenOf } = await openTenant('connector-inverted')
    const connector = await connect('hr', limited)
    const names = ['olga', 'paul', 'rosa']
    const tokens = await Promise.all(names.map(tokenOf))
    for (const token of tokens) expect(await ask(token)).toEqual([200])
    const id = await begin(connector, ...people(false, ...names), ...people(true, 'sven'))
    const waiting = await reach(id, 'needs_approval')
    expect(waiting).toMatchObject({
      breaches: [{ limit: 'max_deactivate', actual: 3, allowed: 2 }],
      counts: { created: 4, applied: 0 },
    })
    expect(await call('GET', `/api/v1/sync-runs/${id}/errors`)).toMatchObject(
      names.map((name) => ({ source_key: name, code: 'access_ends', severity: 'warning' })),
    )
    for (const token of tokens) expect(await ask(token)).toEqual([200])
    const approval = { diff_hash: waiting.diff_hash, reason: 'They have left.' }
    await call('POST', `/api/v1/sync-runs/${id}/approve`, approval)
    await reach(id, 'succeeded')
    for (const token of tokens) await until(token, 'person_inactive')
    // They have no access any more, and two others are within the limit (control).
    const next = await begin(connector, ...people(false, ...names, 'tina', 'ulla'), ...people(true, 'sven'))
    expect(await reach(next, 'succeeded')).toMatchObject({ breaches: [] })
    await until(await tokenOf('ulla'), 'person_inactive')
  })

  test('are counted when a connector begins to decide about access', async () => {
    const { call, connect, run, begin, reach, tokenOf } = await openTenant('connector-promoted')
    const connector = await connect('hr', { ...limited, authoritative: false })
    const rows = [...people(false, 'vera', 'walt', 'xena'), ...people(true, 'yves')]
    await run(connector, ...rows)
    const xena = await tokenOf('xena')
    await call('PATCH', `/api/v1/connectors/${connector}`, { authoritative: true })
    // The source is as before.
    const id = await begin(connector, ...rows)
    const waiting = await reach(id, 'needs_approval')
    expect(waiting).toMatchObject({ breaches: [{ limit: 'max_deactivate', actual: 3, allowed: 2 }] })
    expect(await ask(xena)).toEqual([200])
    await call('POST', `/api/v1/sync-runs/${id}/approve`, { diff_hash: waiting.diff_hash })
    await reach(id, 'succeeded')
    await until(xena, 'person_inactive')
  })

  test('do not change by a run that was planned before the connector decided about access', async () => {
    const { call, connect, run, begin, reach, tokenOf } = await openTenant('connector-approved-late')
    const connector = await connect('hr', { ...limited, authoritative: false })
    await run(connector, ...people(false, 'zoe'), ...people(true, 'adam', 'bela', 'cora'))
    const [zoe, adam] = [await tokenOf('zoe'), await tokenOf('adam')]
    const id = await begin(connector, ...people(false, 'zoe', 'adam', 'bela', 'cora'))
    const { diff_hash } = await reach(id, 'needs_approval')
    await call('PATCH', `/api/v1/connectors/${connector}`, { authoritative: true })
    await call('POST', `/api/v1/sync-runs/${id}/approve`, { diff_hash })
    await reach(id, 'succeeded')
    expect([await ask(zoe), await ask(adam)]).toEqual([[200], [200]])
    // The next run counts all of them (control).
    const next = await reach(await begin(connector, ...people(false, 'zoe', 'adam', 'bela', 'cora')), 'needs_approval')
    expect(next).toMatchObject({ breaches: [{ actual: 4 }] })
  })

  test('are not counted if another source has ended their access', async () => {
    const { call, connect, begin, reach } = await openTenant('connector-after-scim')
    for (const externalId of ['dirk', 'edda', 'fritz']) {
      const user = { userName: `${externalId}@bank.example`, externalId, active: false }
      await call('POST', '/scim/v2/Users', JSON.stringify(user), 'application/scim+json')
    }
    const connector = await connect('hr', limited)
    const id = await begin(connector, ...people(false, 'dirk', 'edda', 'fritz'), ...people(true, 'gerd'))
    expect(await reach(id, 'succeeded')).toMatchObject({ breaches: [] })
  })
})

test('people keep access until the rollback of the run that brought them is approved', async () => {
  const { call, connect, begin, reach, tokenOf } = await openTenant('connector-undone')
  const connector = await connect('hr', { safety: { ...noLimits, max_deactivate: 2 } })
  const names = ['hans', 'inge', 'jens']
  const tokens = await Promise.all(names.map(tokenOf))
  const run = await begin(connector, ...people(true, ...names))
  await reach(run, 'succeeded')
  // An administrator may first turn off that the connector decides.
  await call('PATCH', `/api/v1/connectors/${connector}`, { authoritative: false })
  const { id } = identified.parse(await call('POST', `/api/v1/sync-runs/${run}/rollback`, {}))
  const waiting = await reach(id, 'needs_approval')
  expect(waiting).toMatchObject({ breaches: [{ limit: 'max_deactivate', actual: 3, allowed: 2 }] })
  for (const token of tokens) expect(await ask(token)).toEqual([200])
  await call('POST', `/api/v1/sync-runs/${id}/approve`, { diff_hash: waiting.diff_hash })
  await reach(id, 'succeeded')
  for (const token of tokens) await until(token, 'person_inactive')
})

test('only a connector of people can be authoritative', async () => {
  const { call, connect } = await openTenant('connector-datasets')
  const [gateway = ''] = stack.gateways
  const { key } = await stack.createKey({ id: (await stack.createTenant()).id }, { scopes: ['admin:sync'] })
  const body = { key: 'it', name: 'It', type: 'csv', dataset: 'auditable_entities', authoritative: true }
  const made = await send(gateway, '/api/v1/connectors', { key, method: 'POST', body })
  expect([made.status, made.json]).toMatchObject([422, { errors: [{ pointer: '/authoritative' }] }])
  const connector = await connect('hr')
  expect(await call('GET', `/api/v1/connectors/${connector}`)).toMatchObject({ authoritative: true })
  expect(await call('PATCH', `/api/v1/connectors/${connector}`, { name: 'HR' })).toMatchObject({ authoritative: true })
})
