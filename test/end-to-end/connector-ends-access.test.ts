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
  const run = async (connector: string, ...rows: readonly Row[]): Promise<void> => {
    const lines = rows.map(([uid, isActive, email = '']) => `${uid},${uid},${isActive},${email}`)
    const csv = ['external_id,name,active,email', ...lines, ''].join('\n')
    const { id } = identified.parse(await call('POST', `/api/v1/connectors/${connector}/runs`, csv, 'text/csv'))
    const status = async () => await call('GET', `/api/v1/sync-runs/${id}`)
    await expect
      .poll(status, { timeout: 60_000, interval: 100 })
      .toMatchObject({ status: 'succeeded', finished_at: expect.any(String) })
  }
  const tokenOf = async (person: string) =>
    (await byId?.issue({ tenantId: tenant.id, roles: ['admin'], more: { uid: person } })) ?? ''
  const tokenOfAddress = async (email: string) =>
    (await byAddress?.issue({
      tenantId: tenant.id,
      roles: ['admin'],
      more: { uid: email, email, email_verified: true },
    })) ?? ''
  return { call, connect, run, tokenOf, tokenOfAddress }
}

const ask = async (token: string) => await askAll(stack.gateways, token)
const until = async (token: string, outcome: unknown) => await untilEverywhere(stack.gateways, token, outcome)

describe('a person whom an authoritative connector makes inactive', () => {
  test('loses access, and nobody else does', async () => {
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
    // Nothing has changed in the source.
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
