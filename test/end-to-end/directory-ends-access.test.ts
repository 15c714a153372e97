/**
 * @promise Edge: A person whom the directory deactivates loses the API, the console and new sign-ins within five seconds.
 */

import { randomUUID } from 'node:crypto'
import {
  auditEventSchema,
  createdApiKeySchema,
  memberSchema,
  patchUrn,
  signInHeader,
  whoamiSchema,
} from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { askAll as askGateways, patientMs, untilEverywhere as untilAtGateways } from '../support/ask-gateways.ts'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let stack: TestStack
let issuer: RunningIssuer
let strictIssuer: RunningIssuer
let nameIssuer: RunningIssuer
let bank: { readonly id: string }
let other: { readonly id: string }
let scimKey: string

const withinMs = 5000

beforeAll(async () => {
  ;[issuer, strictIssuer, nameIssuer] = [await startIssuer(), await startIssuer(), await startIssuer()]
  const provider = {
    name: 'Staff',
    issuer: issuer.url,
    subject: ['/uid'],
    directory: { match: '/uid', with: 'externalId' },
  }
  const strict = {
    ...provider,
    name: 'Strict',
    issuer: strictIssuer.url,
    person_prefix: 'strict:',
    directory: { match: '/email', with: 'emails.value', required: true },
  }
  const names = {
    ...provider,
    name: 'Names',
    issuer: nameIssuer.url,
    person_prefix: 'names:',
    directory: { match: '/upn', with: 'userName' },
    grants: { from: ['/groups'], form: '/postern/{tenant}/{role}' },
  }
  stack = await startTestStack({
    gateways: 3,
    env: { POSTERN_SIGN_IN: JSON.stringify({ providers: [provider, strict, names] }) },
  })
  ;[bank, other] = [await stack.createTenant('directory-bank'), await stack.createTenant('directory-other')]
  scimKey = (await stack.createKey(bank, { scopes: ['admin:sync'] })).key
})
afterAll(async () => {
  await stack.stop()
  await issuer.stop()
  await strictIssuer.stop()
  await nameIssuer.stop()
})

async function scim(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown, key = scimKey) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/scim+json' }
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await send(stack.gateways[0] ?? '', `/scim/v2${path}`, { method, headers, ...sent })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer
}

const userSchema = z.looseObject({ id: z.string() })

async function provision(person: string, fields: Record<string, unknown> = {}, key = scimKey): Promise<string> {
  const user = { userName: `${person}@bank.example`, externalId: person, active: true, ...fields }
  return userSchema.parse((await scim('POST', '/Users', user, key)).json).id
}

const activeAs = (active: boolean) => ({
  schemas: [patchUrn],
  Operations: [{ op: 'replace', path: 'active', value: active }],
})

async function byName(userName: string): Promise<string> {
  return await nameIssuer.issue({ tenantId: bank.id, roles: ['viewer'], more: { uid: 'by-name', upn: userName } })
}

async function setActive(id: string, active: boolean): Promise<void> {
  await scim('PATCH', `/Users/${id}`, activeAs(active))
}

async function tokenOf(person: string, tenant = bank, roles = ['admin']): Promise<string> {
  return await issuer.issue({ tenantId: tenant.id, roles, more: { uid: person } })
}

const askAll = async (token: string) => await askGateways(stack.gateways, token)
const untilEverywhere = async (token: string, outcome: unknown, boundMs = withinMs) =>
  await untilAtGateways(stack.gateways, token, outcome, boundMs)

describe('a person whom SCIM made inactive', () => {
  test('loses access at every gateway, and has it again when active', async () => {
    const id = await provision('anna')
    const token = await tokenOf('anna')
    expect(await askAll(token)).toEqual([200])
    await setActive(id, false)
    await untilEverywhere(token, 'person_inactive')
    // A new token does not help.
    expect(await askAll(await tokenOf('anna', bank, ['admin']))).toEqual(['person_inactive'])
    await setActive(id, true)
    await untilEverywhere(token, 200)
  })

  test('loses access by deletion, and has it again as a new user', async () => {
    const id = await provision('bert')
    const token = await tokenOf('bert')
    expect(await askAll(token)).toEqual([200])
    await scim('DELETE', `/Users/${id}`)
    await untilEverywhere(token, 'person_inactive')
    await provision('bert', { userName: `bert-${randomUUID()}@bank.example` })
    await untilEverywhere(token, 200)
  })

  test('stays out after the last of many changes, in whatever order gateways hear of them', async () => {
    const id = await provision('carl')
    const token = await tokenOf('carl')
    for (let round = 0; round < 5; round += 1) {
      await setActive(id, false)
      await setActive(id, true)
    }
    await untilEverywhere(token, 200)
    await setActive(id, false)
    await untilEverywhere(token, 'person_inactive')
    expect(await askAll(token)).toEqual(['person_inactive'])
  })

  test('is out after a crash of the sync service that has answered', async () => {
    const id = await provision('dora')
    const token = await tokenOf('dora')
    expect(await askAll(token)).toEqual([200])
    await setActive(id, false)
    stack.process('sync').kill('SIGKILL')
    await untilEverywhere(token, 'person_inactive')
    await stack.restart('sync')
    expect(await askAll(token)).toEqual(['person_inactive'])
  })

  test.each([
    ['deactivation', 'PATCH'],
    ['deletion', 'DELETE'],
  ] as const)('is out after a %s that the audit universe cannot apply', async (what, method) => {
    const id = await provision(what)
    const token = await tokenOf(what)
    expect(await askAll(token)).toEqual([200])
    stack.process('universe').kill('SIGKILL')
    const body = method === 'PATCH' ? { body: JSON.stringify(activeAs(false)) } : {}
    const headers = { authorization: `Bearer ${scimKey}`, 'content-type': 'application/scim+json' }
    const failed = await send(stack.gateways[0] ?? '', `/scim/v2/Users/${id}`, { method, headers, ...body })
    expect(failed.status, failed.text).toBeGreaterThanOrEqual(500)
    await untilEverywhere(token, 'person_inactive')
    await stack.restart('universe')
    // The directory repeats it, or takes it back.
    await setActive(id, false)
    expect(await askAll(token)).toEqual(['person_inactive'])
    await setActive(id, true)
    await untilEverywhere(token, 200)
  })

  test('is active again if the directory takes back a deactivation that failed', async () => {
    const id = await provision('nora')
    const token = await tokenOf('nora')
    stack.process('universe').kill('SIGKILL')
    const headers = { authorization: `Bearer ${scimKey}`, 'content-type': 'application/scim+json' }
    const body = JSON.stringify(activeAs(false))
    const failed = await send(stack.gateways[0] ?? '', `/scim/v2/Users/${id}`, { method: 'PATCH', headers, body })
    expect(failed.status, failed.text).toBeGreaterThanOrEqual(500)
    await untilEverywhere(token, 'person_inactive')
    await stack.restart('universe')
    await setActive(id, true)
    await untilEverywhere(token, 200)
  })

  test('is out from the first request, if that was before the first sign-in, and is listed as having left', async () => {
    await provision('mona', { active: false })
    expect(await askAll(await tokenOf('mona'))).toEqual(['person_inactive'])
    const headers = { authorization: `Bearer ${await tokenOf('olga')}` }
    const mona = async () =>
      z
        .array(memberSchema)
        .parse((await send(stack.gateways[0] ?? '', '/api/v1/members', { headers })).json)
        .find((each) => each.id === 'mona')
    await expect.poll(mona, { timeout: patientMs }).toMatchObject({ left_at: expect.any(String) })
  })

  test('is out by any spelling of the name', async () => {
    const composed = '\u00c5sa-\u00c4rlig'
    const id = await provision(composed)
    const userName = `${composed}@bank.example`
    const tokens = [
      await tokenOf(composed.normalize('NFD')),
      await byName(userName.normalize('NFD')),
      await byName(userName.toLowerCase()),
      await byName(userName.toUpperCase()),
    ]
    for (const token of tokens) expect(await askAll(token)).toEqual([200])
    await setActive(id, false)
    for (const token of tokens) await untilEverywhere(token, 'person_inactive')
  })

  test('is in the audit feed when signing in, like somebody without a role or without an account', async () => {
    await provision('vito', { active: false })
    const admin = { authorization: `Bearer ${await tokenOf('uma')}` }
    const [gateway = ''] = stack.gateways
    const ask = async (token: string, path: string, header = signInHeader) =>
      await send(gateway, path, { headers: { authorization: `Bearer ${token}`, [header]: 'true' } })
    const unknown = await strictIssuer.issue({
      tenantId: bank.id,
      roles: ['admin'],
      more: { uid: 'xena', email: 'xena@bank.example', email_verified: true },
    })
    // Neither requests of programs nor other requests are sign-ins.
    expect((await ask(await tokenOf('vito'), '/api/v1/whoami', 'x-other')).code).toBe('person_inactive')
    expect((await ask(await tokenOf('vito'), '/api/v1/findings')).code).toBe('person_inactive')
    expect((await ask(await tokenOf('wanda', bank, []), '/api/v1/whoami')).status).toBe(200)
    expect((await ask(unknown, '/api/v1/whoami')).code).toBe('person_unknown')
    for (const _ of [1, 2, 3]) expect((await ask(await tokenOf('vito'), '/api/v1/whoami')).code).toBe('person_inactive')
    const feed = async () => {
      const { json } = await send(gateway, '/api/v1/audit-events?category=sign_in', { headers: admin })
      return z
        .array(auditEventSchema)
        .parse(json)
        .map(({ action, reason, actor_id: id }) => `${action} ${reason} ${id}`)
    }
    const expected = ['no_role wanda', 'person_inactive vito', 'person_unknown strict:xena']
    await expect
      .poll(async () => (await feed()).toSorted(), { timeout: patientMs, interval: 200 })
      .toEqual(expected.map((each) => `sign_in.failed ${each}`))
  })

  test('stays out by the name of before, and nobody else does', async () => {
    const id = await provision('emil')
    const [before, after, colleague] = [await tokenOf('emil'), await tokenOf('emil-2'), await tokenOf('fred')]
    const rename = { schemas: [patchUrn], Operations: [{ op: 'replace', path: 'externalId', value: 'emil-2' }] }
    await scim('PATCH', `/Users/${id}`, rename)
    await setActive(id, false)
    await untilEverywhere(after, 'person_inactive')
    await untilEverywhere(before, 'person_inactive')
    await provision('fred')
    expect(await askAll(colleague)).toEqual([200])
  })

  test('keeps access in another tenant', async () => {
    const id = await provision('gina')
    const [here, there] = [await tokenOf('gina'), await tokenOf('gina', other)]
    await setActive(id, false)
    await untilEverywhere(here, 'person_inactive')
    expect(await askAll(there)).toEqual([200])
  })

  test('keeps access in another tenant of the same token', async () => {
    const id = await provision('paul')
    const groups = [bank, other].map((tenant) => `/postern/${tenant.id}/viewer`)
    const more = { uid: 'paul', upn: 'paul@bank.example', groups }
    const authorization = `Bearer ${await nameIssuer.issue({ tenantId: bank.id, roles: [], more })}`
    const askIn = async (tenant: { readonly id: string }) => {
      const headers = { authorization, 'postern-tenant': tenant.id }
      const { status, code } = await send(stack.gateways[0] ?? '', '/api/v1/findings', { headers })
      return code ?? status
    }
    expect([await askIn(bank), await askIn(other)]).toEqual([200, 200])
    await setActive(id, false)
    await expect.poll(async () => await askIn(bank), { timeout: patientMs }).toBe('person_inactive')
    expect(await askIn(other)).toBe(200)
  })

  test('lists only the tenants that still know the person, and none after the last', async () => {
    const person = { userName: 'rosa@bank.example' }
    const elsewhere = (await stack.createKey(other, { scopes: ['admin:sync'] })).key
    const [here, there] = [await provision('rosa', person), await provision('rosa', person, elsewhere)]
    const groups = [bank, other].map((tenant) => `/postern/${tenant.id}/viewer`)
    const more = { uid: 'rosa', upn: person.userName, groups }
    const authorization = `Bearer ${await nameIssuer.issue({ tenantId: bank.id, roles: [], more })}`
    const list = async (headers: Record<string, string> = {}) => {
      const asked = await send(stack.gateways[0] ?? '', '/api/v1/whoami', { headers: { authorization, ...headers } })
      return asked.code ?? whoamiSchema.parse(asked.json).tenants.map((each) => each.id)
    }
    expect(await list()).toEqual([bank.id, other.id])
    await setActive(here, false)
    await expect.poll(async () => await list(), { timeout: patientMs }).toEqual([other.id])
    expect(await list({ 'postern-tenant': other.id })).toEqual([other.id])
    expect(await list({ 'postern-tenant': bank.id })).toBe('person_inactive')
    await scim('PATCH', `/Users/${there}`, activeAs(false), elsewhere)
    await expect.poll(async () => await list(), { timeout: patientMs }).toBe('person_inactive')
    // Each tenant reads of the refused sign-in.
    expect(await list({ [signInHeader]: 'true' })).toBe('person_inactive')
    for (const tenant of [bank, other]) {
      const admin = { authorization: `Bearer ${await tokenOf('uma', tenant)}` }
      const feed = async () => {
        const path = '/api/v1/audit-events?category=sign_in'
        const { json } = await send(stack.gateways[0] ?? '', path, { headers: admin })
        return z
          .array(auditEventSchema)
          .parse(json)
          .map(({ actor_id: id, reason }) => `${id} ${reason}`)
      }
      const expected = expect.arrayContaining(['names:rosa person_inactive'])
      await expect.poll(feed, { timeout: patientMs, interval: 200 }).toEqual(expected)
    }
    await scim('PATCH', `/Users/${there}`, activeAs(true), elsewhere)
    await expect.poll(async () => await list(), { timeout: patientMs }).toEqual([other.id])
  })

  test('is listed as having left, with the keys that the person owns', async () => {
    const id = await provision('hugo')
    const [token, admin] = [await tokenOf('hugo'), await tokenOf('ines')]
    const [gateway = ''] = stack.gateways
    const call = async (of: string, path: string, body?: unknown) =>
      await send(gateway, path, {
        headers: { authorization: `Bearer ${of}` },
        ...(body === undefined ? {} : { method: 'POST' as const, body }),
      })
    const made = await call(token, '/api/v1/api-keys', {
      label: 'Of Hugo',
      expires_in: '90d',
      scopes: ['read:findings'],
    })
    const { id: keyId, key } = createdApiKeySchema.parse(made.json)
    const member = async () =>
      z
        .array(memberSchema)
        .parse((await call(admin, '/api/v1/members')).json)
        .find((each) => each.id === 'hugo')
    await expect.poll(member, { timeout: patientMs }).toMatchObject({ left_at: null })
    await setActive(id, false)
    expect(await member()).toMatchObject({ left_at: expect.any(String) })
    expect((await call(admin, `/api/v1/api-keys/${keyId}`)).json).toMatchObject({
      owner: { left_at: expect.any(String) },
    })
    const listed = await call(admin, '/api/v1/api-keys?health=owner_left')
    expect(listed.json).toEqual([expect.objectContaining({ id: keyId })])
    // A key is no person: administrators decide about it.
    expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
    await setActive(id, true)
    expect(await member()).toMatchObject({ left_at: null })
  })
})

async function ofStrict(more: Record<string, unknown>): Promise<string> {
  return await strictIssuer.issue({ tenantId: bank.id, roles: ['viewer'], more: { uid: 'strict', ...more } })
}

describe('people whom the directory does not know', () => {
  test('have access, unless the directory is required', async () => {
    expect(await askAll(await tokenOf('nobody'))).toEqual([200])
    const jan = { email: 'Jan@Bank.example', email_verified: true }
    expect(await askAll(await ofStrict(jan))).toEqual(['person_unknown'])
    const id = await provision('jan', { emails: [{ value: 'jan@bank.example' }] })
    await untilEverywhere(await ofStrict(jan), 200)
    await setActive(id, false)
    await untilEverywhere(await ofStrict(jan), 'person_inactive')
  })

  test('have none with a token that does not say who they are', async () => {
    await provision('kim', { emails: [{ value: 'kim@bank.example' }] })
    const email = 'kim@bank.example'
    expect(await askAll(await ofStrict({ email, email_verified: true }))).toEqual([200])
    for (const more of [{ email }, { email, email_verified: 'true' }, {}, { email: [email], email_verified: true }]) {
      expect(await askAll(await ofStrict(more)), JSON.stringify(more)).toEqual(['invalid_token'])
    }
  })
})

test('while the keys service is away, nobody is let in by what was known before', async () => {
  const id = await provision('lena')
  const token = await tokenOf('lena')
  expect(await askAll(token)).toEqual([200])
  let acceptedAt = -Infinity
  const ask = async (gateway: string): Promise<number> => {
    const at = performance.now()
    const { status } = await fetch(`${gateway}/api/v1/findings`, { headers: { authorization: `Bearer ${token}` } })
    if (status === 200) acceptedAt = Math.max(acceptedAt, at)
    return status
  }
  stack.process('keys').kill('SIGSTOP')
  try {
    const body = { schemas: [patchUrn], Operations: [{ op: 'replace', path: 'active', value: false }] }
    const scimClient = { tenantId: bank.id, scopes: ['admin:sync' as const], id: 'directory', label: 'Directory' }
    const changed = await stack.caller('sync').call(scimClient, 'PATCH', `/scim/v2/Users/${id}`, {
      body: Buffer.from(JSON.stringify(body)),
      headers: { 'content-type': 'application/scim+json' },
    })
    expect(changed.status, changed.text).toBe(200)
    const changedAt = performance.now()
    const outcomes = async () => [...new Set(await Promise.all(stack.gateways.map(ask)))]
    await expect.poll(outcomes, { timeout: patientMs, interval: 50 }).toEqual([503])
    expect(acceptedAt - changedAt).toBeLessThan(withinMs)
  } finally {
    stack.process('keys').kill('SIGCONT')
  }
  await untilEverywhere(token, 'person_inactive', patientMs)
})
