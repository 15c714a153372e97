/** @promise Tenants: Who signed in to the console, or was refused, is in the audit feed of the tenant, and in no other. */

import { type AuditEvent, auditEventSchema } from '@postern/contracts'
import { type TestStack, createTestBrowser, operator, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'

let stack: TestStack
let tenants: Readonly<Record<'harbourline' | 'korvex', { readonly id: string }>>

beforeAll(async () => {
  stack = await startTestStack({ console: true, gateways: 1 })
  tenants = { harbourline: await stack.createTenant('harbourline'), korvex: await stack.createTenant('korvex') }
  await stack.nameTenants(tenants)
})
afterAll(async () => await stack.stop())

async function signIn(person: string) {
  const browser = createTestBrowser()
  const { status } = await browser.signIn(stack.consoleUrl, person)
  const read = async (): Promise<AuditEvent[]> => {
    const answer = await browser.send(`${stack.consoleUrl}/api/v1/audit-events?category=sign_in&order=oldest`, {
      headers: { accept: 'application/json', 'sec-fetch-site': 'same-origin' },
    })
    expect(answer.status, answer.text).toBe(200)
    return z.array(auditEventSchema).parse(JSON.parse(answer.text))
  }
  return { status, browser, read }
}

const inFeed = { timeout: 60_000, interval: 500 }

test('a sign-in is in the feed once, however much the person does afterwards, and only in its tenant', async () => {
  const admin = await signIn('harbourline-admin')
  await signIn('harbourline-viewer')
  const outcomes = async () => (await admin.read()).map(({ action, actor_id: id }) => `${action} ${id}`)
  await expect
    .poll(outcomes, inFeed)
    .toEqual(expect.arrayContaining(['sign_in.succeeded harbourline-admin', 'sign_in.succeeded harbourline-viewer']))
  const [first] = await admin.read()
  expect(first).toMatchObject({
    outcome: 'success',
    reason: null,
    actor_type: 'person',
    resource_type: 'tenant',
    resource_id: tenants.harbourline.id,
    source_ip: '127.0.0.1',
    request_id: expect.stringMatching(/./),
  })
  // Of another tenant, whose own sign-in is there.
  const other = await signIn('korvex-admin')
  const theirs = async () => (await other.read()).map(({ actor_id: id }) => id)
  await expect.poll(theirs, inFeed).toEqual(['korvex-admin'])
  expect(await outcomes()).toHaveLength(2)
})

async function changeTenant(action: 'suspend' | 'resume'): Promise<void> {
  const path = `/internal/v1/tenants/${tenants.harbourline.id}/${action}`
  expect((await stack.operator.call(operator, 'POST', path)).status).toBe(200)
}

test('a sign-in that the gateway refuses is in the feed with its reason', async () => {
  const admin = await signIn('harbourline-admin')
  await changeTenant('suspend')
  expect((await signIn('harbourline-auditor')).status).toBe(403)
  await changeTenant('resume')
  const failed = async () => (await admin.read()).filter(({ outcome }) => outcome === 'failure')
  await expect
    .poll(failed, inFeed)
    .toMatchObject([{ action: 'sign_in.failed', reason: 'tenant_suspended', actor_id: 'harbourline-auditor' }])
  // The control: no other reason kept the person out.
  expect((await signIn('harbourline-auditor')).status).toBe(200)
})
