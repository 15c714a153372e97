// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { type ApiKey, apiKeySchema, whoamiSchema } from '@postern/contracts'
import { operator } from '@postern/local-stack/testing'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { accessibilityFaults } from '../support/browser.ts'
import { runSnippet } from '../support/shell.ts'
import { fewClicksTests } from './few-clicks.ts'
import { keyExpiryTests, scriptLabel } from './key-expiry.ts'
import { keyPageTests } from './key-page.ts'
import { testComplaints, useWorld } from './use-world.ts'
import { choose, closeReveal, copyKey, fillForm, keyOf, open, show, statusOf, submit, loseAnswer } from './world.ts'

const world = useWorld({ gateways: 2 })

keyExpiryTests(world)

test('a key is shown once, works for its purpose, and is rejected by every gateway once it is revoked', async () => {
  const { page, stack } = world()
  const { value, command } = await keyOf(world(), 'Leaking')
  expect(value).toMatch(/^postern_[0-9A-Za-z]{49}$/)
  expect(command).toContain(`curl --config - '${stack.gateways[0]}/api/v1/whoami'`)
  expect(command).not.toContain(value.slice(8, 20))
  expect(await page.content()).not.toContain(value)
  await page.getByRole('link', { name: 'Leaking' }).waitFor()
  // The exact program that the page showed.
  expect(whoamiSchema.parse(JSON.parse(await runSnippet('bash', command, value)))).toMatchObject({
    label: 'Leaking',
  })
  expect([await statusOf(world(), value, 0), await statusOf(world(), value, 1)]).toEqual([200, 200])

  await choose(page, 'Leaking', 'Revoke…')
  const question = page.getByRole('alertdialog')
  await question.getByText('Leaking', { exact: true }).waitFor()
  await question.getByText('Last used').waitFor()
  expect(await accessibilityFaults(page), 'the question').toEqual([])
  // An unreachable gateway is reported, and the request can be repeated.
  await page.route('**/revoke', async (route) => await route.fulfill(unconfirmed), { times: 1 })
  await question.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Not yet confirmed by all gateways').waitFor()
  await question.getByRole('button', { name: 'Try again' }).click()
  await page.getByText(/Enforced on all gateways in [\d.]+ m?s/).waitFor()
  expect(await accessibilityFaults(page), 'the answer').toEqual([])
  expect([await statusOf(world(), value, 0), await statusOf(world(), value, 1)]).toEqual([401, 401])
  expect(JSON.parse(await runSnippet('bash', command, value))).toMatchObject({ status: 401, code: 'key_revoked' })
  await page.getByRole('button', { name: 'Close' }).last().click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  // On hover, each time shows its own moment: the original expiry and the revocation.
  const times = page.getByRole('row').filter({ hasText: 'Leaking' }).locator('.cell-expires').locator('time, [title]')
  const moments = await times.evaluateAll((elements) =>
    elements.map((element) => [element.getAttribute('datetime'), element.getAttribute('title')]),
  )
  const { expires_at: end, revoked_at: revoked } = await keyCalled(page, 'Leaking')
  expect(moments).toEqual([end, revoked].map((at) => [at, at === null ? undefined : inUtc(at)]))
})

test('a key starts from a template, or from a link that fills in the form', async () => {
  const { context, page } = await world().openFor('harbourline-admin')
  const link = 'new=evidence-robot&label=From+a+link&address=203.0.113.0/24'
  await page.goto(`${world().stack.consoleUrl}/settings/api-keys?${link}`)
  const label = page.getByRole('textbox', { name: 'Label', exact: true })
  await label.waitFor()
  expect(await label.inputValue()).toBe('From a link')
  expect(await page.getByRole('textbox', { name: 'Allowed addresses' }).inputValue()).toBe('203.0.113.0/24')
  expect(await page.getByRole('checkbox', { name: /write:evidence/ }).isChecked()).toBe(true)
  await page.getByRole('button', { name: /Template$/ }).click()
  await page.getByRole('option', { name: 'Power BI' }).click()
  expect(await page.getByRole('checkbox', { name: /write:evidence/ }).isChecked()).toBe(false)
  expect(await page.getByRole('checkbox', { name: /read:findings/ }).isChecked()).toBe(true)
  expect(await accessibilityFaults(page), 'the form with a template').toEqual([])
  expect(page.url()).not.toContain('new=')
  await context.close()
})

test('a key is copied by hand where the clipboard is not allowed, and then counts as copied', async () => {
  const { context, page } = await world().openFor('harbourline-admin')
  await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
  await fillForm(page, 'By hand')
  await submit(page)
  const key = page.getByText(/^postern_[0-9A-Za-z]{49}$/)
  await key.waitFor()
  const value = (await key.textContent()) ?? ''
  await page.getByRole('button', { name: /Program$/ }).click()
  await page.getByRole('option', { name: 'Python' }).click()
  const program = (await page.getByLabel('A program that uses the key').textContent()) ?? ''
  expect(JSON.parse(await runSnippet('python3', program, value))).toMatchObject({ label: 'By hand' })
  await page.evaluate(() => {
    navigator.clipboard.writeText = async () => await Promise.reject(new Error('not allowed'))
  })
  await page.getByRole('button', { name: 'Copy key' }).click()
  const status = page.getByRole('status').filter({ hasText: 'The browser did not allow it' })
  await status.waitFor({ state: 'attached' })
  expect(await accessibilityFaults(page), 'a refusal of the clipboard').toEqual([])
  const question = page.getByRole('alertdialog')
  const ask = async (name: string) => {
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('alertdialog', { name }).waitFor()
  }
  // Other content of the screen does not contain the key.
  await page.getByRole('dialog').getByRole('heading', { level: 2 }).selectText()
  await page.keyboard.press('ControlOrMeta+c')
  await ask('You have not copied the key')
  await question.getByRole('button', { name: 'Back to the key' }).click()
  await question.waitFor({ state: 'detached' })
  await key.selectText()
  await page.keyboard.press('ControlOrMeta+c')
  await ask('Is the key stored safely?')
  await question.getByRole('button', { name: 'Yes, close' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await context.close()
})

test('a rotated key works until its overlap ends, and so does the new one', async () => {
  const { page } = world()
  const { value: old } = await keyOf(world(), 'Rotating')
  await choose(page, 'Rotating', 'Rotate…')
  expect(await accessibilityFaults(page), 'the dialog').toEqual([])
  await page.getByRole('button', { name: 'Generate new key' }).click()
  const successor = await copyKey(world())
  await closeReveal(page)
  expect(successor).not.toBe(old)
  expect([await statusOf(world(), old, 0), await statusOf(world(), successor, 1)]).toEqual([200, 200])
  await page.getByRole('link', { name: 'Rotating' }).first().click()
  await page.getByRole('heading', { name: 'Audit trail' }).waitFor()
  await page.getByText('What it can call').waitFor()
  const rotation = page.getByRole('region', { name: 'Rotation' })
  await rotation.getByRole('row', { name: /^Old key/ }).waitFor()
  await rotation.getByRole('row', { name: /^New key/ }).waitFor()
  await rotation
    .getByText(/^The old key (?:is still used|was used within the last day|has not been used yet)$/)
    .waitFor()
  await show(page, 'rotation')
  // In the person's zone, and exactly on hover.
  expect(await page.locator('.trail time').first().getAttribute('title')).toMatch(/^\d{4}-\d\d-\d\d [\d:.]{12} UTC$/)
  expect(await accessibilityFaults(page), 'the page of a key').toEqual([])
  // The new key's value is in no storage of the browser.
  const kept = await page.evaluate(async () => {
    const names = (await indexedDB.databases()).map(({ name }) => name)
    const state: unknown = history.state
    return JSON.stringify([location.href, state, { ...localStorage }, { ...sessionStorage }, document.cookie, names])
  })
  await page.goBack()
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
  for (const value of [old, successor]) {
    expect(kept).not.toContain(value.slice(8))
    expect(await page.content()).not.toContain(value.slice(8))
  }
})

test('a label that is a script is shown as text', async () => {
  const { page } = world()
  await keyOf(world(), scriptLabel)
  await page.getByRole('link', { name: scriptLabel }).click()
  await page.getByRole('heading', { level: 1, name: scriptLabel }).waitFor()
  expect(await page.locator('img, h1 script').count()).toBe(0)
  expect(await page.title()).toContain('<img')
  await open(page, 'API keys')
})

test('a key is not created without a label and a scope, and a rejected address is shown', async () => {
  const { page } = world()
  await page.getByRole('button', { name: 'Generate key' }).first().click()
  await submit(page)
  await page.getByText('Enter which program will use the key').waitFor()
  await page.getByText('Choose at least one scope').waitFor()
  expect(await accessibilityFaults(page)).toEqual([])
  await page.getByRole('textbox', { name: 'Label', exact: true }).fill('Nowhere to go')
  await page.getByText('Read findings, recommendations').click()
  await page.getByRole('button', { name: 'Advanced' }).click()
  await page.getByRole('textbox', { name: 'Allowed addresses' }).fill('not-an-address')
  await submit(page)
  await page.getByText('“not-an-address” is not an address or network').waitFor()
  // Errors of the API are shown at the end of the form.
  await page.getByRole('textbox', { name: 'Allowed addresses' }).fill('10.0.0.1/8')
  await page.route('**/api/v1/api-keys', async (route) => await route.fulfill(refusedAddress), { times: 1 })
  await submit(page)
  const refusal = page.getByRole('alert').filter({ hasText: 'No key was generated' })
  await refusal.getByText('Allowed addresses: 10.0.0.1 is no network').waitFor()
  await expect.poll(async () => await refusal.evaluate(isInView)).toBe(true)
  await page.getByRole('button', { name: 'Cancel' }).click()
})

test('a key whose response is lost is created once, and the page says so', async () => {
  const { page } = world()
  await fillForm(page, 'Lost on its way')
  await page.route('**/api/v1/api-keys', loseAnswer, { times: 1 })
  await submit(page)
  const unsure = page.getByRole('alert').filter({ hasText: 'It is not known whether a key was generated' })
  await unsure.getByText('Try again: nothing is done twice.').waitFor()
  await submit(page)
  await page.getByText('The key was created, but its value is lost').waitFor()
  expect(await accessibilityFaults(page), 'the lost key').toEqual([])
  await page.getByRole('link', { name: 'Open the key' }).click()
  await page.getByRole('heading', { level: 1, name: 'Lost on its way' }).waitFor()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const keys = z
    .array(apiKeySchema)
    .parse(await page.evaluate(async () => await (await fetch('/api/v1/api-keys')).json()))
  expect(keys.filter(({ label }) => label === 'Lost on its way')).toHaveLength(1)
  await open(page, 'API keys')
})

test('a key can be generated, copied and revoked without a mouse', async () => {
  const { page, paste } = world()
  const press = async (...keys: readonly string[]) => {
    for (const key of keys) await page.keyboard.press(key)
  }
  await page.getByRole('button', { name: 'Generate key' }).first().focus()
  await press('Enter')
  // The form opens with the focus in its first field.
  await page.getByRole('textbox', { name: 'Label', exact: true }).and(page.locator(':focus')).waitFor()
  await page.keyboard.type('By keyboard')
  // Enter on a scope chooses it and does not submit the form.
  await press('Tab', 'ArrowLeft', 'Tab', 'Enter')
  expect(await page.getByRole('button', { name: 'Copy key' }).count()).toBe(0)
  await page.getByRole('button', { name: 'Generate', exact: true }).focus()
  await press('Enter')
  await page.getByRole('button', { name: 'Copy key' }).waitFor()
  // Tab stays within the dialog.
  const copy = page.getByRole('button', { name: 'Copy key' }).and(page.locator(':focus'))
  for (let tabs = 0; tabs < 8 && (await copy.count()) === 0; tabs += 1) await press('Tab')
  await press('Enter')
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  const value = await paste()
  expect(await statusOf(world(), value, 0)).toBe(200)
  await press('Escape')
  await page.getByRole('alertdialog', { name: 'Is the key stored safely?' }).waitFor()
  await press('Tab', 'Tab', 'Enter')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const made = z
    .array(apiKeySchema)
    .parse(await page.evaluate(async () => await (await fetch('/api/v1/api-keys')).json()))
    .find(({ label }) => label === 'By keyboard')
  // One to the left of 90 days.
  expect([made?.scopes, made?.state]).toEqual([['read:universe'], 'active'])
  await page.getByRole('button', { name: 'Actions for By keyboard' }).focus()
  await press('Enter', 'ArrowDown', 'ArrowDown', 'Enter')
  await page.getByRole('alertdialog', { name: 'Revoke this key?' }).waitFor()
  // The safe button has the focus.
  await page.getByRole('button', { name: 'Keep the key' }).and(page.locator(':focus')).waitFor()
  await press('Tab', 'Enter')
  await page.getByText(/Enforced on all gateways/).waitFor()
  expect(await statusOf(world(), value, 0)).toBe(401)
  await press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
})

test('all keys of a leaver are revoked in six clicks', async () => {
  const { context, page } = await world().openFor('harbourline-admin')
  const { stack, tenants } = world()
  const owner = { type: 'team', name: 'Leavers', contact: 'leavers@harbourline.example' }
  for (const label of ['Leaver 1', 'Leaver 2', 'Leaver 3']) {
    const body = { label, expires_in: '30d', scopes: ['read:findings'], owner }
    const as = { ...operator, tenantId: tenants.harbourline.id }
    expect((await stack.operator.call(as, 'POST', '/api/v1/api-keys', { body })).status).toBe(201)
  }
  await page.goto(`${stack.consoleUrl}/settings/api-keys`)
  // Finds keys by their owner.
  await page.getByRole('searchbox').fill('leavers@')
  await page.getByText('Select all 3 shown').click()
  expect(await accessibilityFaults(page), 'the selection').toEqual([])
  await page.getByRole('button', { name: 'Change 3 selected…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Change 3 keys' })
  await dialog.getByText('No key was used in the last 24 hours').waitFor()
  await dialog.getByRole('rowheader', { name: /Leaver 2/ }).waitFor()
  expect(await accessibilityFaults(page), 'the preview').toEqual([])
  await show(page, 'bulk-preview')
  await dialog.getByRole('button', { name: 'Revoke 3 keys' }).click()
  const receipt = page.getByRole('dialog', { name: 'Receipt' })
  await receipt.getByText('3 keys changed').waitFor()
  await receipt.getByText(/Enforced on all gateways: 2 confirmed, 0 fenced/).waitFor()
  expect(await accessibilityFaults(page), 'the receipt').toEqual([])
  await show(page, 'bulk-receipt')
  await receipt.getByRole('button', { name: 'Close' }).last().click()
  await page.getByRole('row', { name: /Leaver 3.*Revoked/ }).waitFor()
  await show(page, 'bulk-list')
  await context.close()
})

keyPageTests(world)
fewClicksTests(world)
testComplaints(world)

/** Returns a key from the API by its label. */
async function keyCalled(page: Page, label: string): Promise<ApiKey> {
  const keys = z
    .array(apiKeySchema)
    .parse(await page.evaluate(async () => await (await fetch('/api/v1/api-keys')).json()))
  const key = keys.find((each) => each.label === label)
  if (key === undefined) throw new Error(`no key is called ${label}`)
  return key
}

/** The format of times on hover. */
const inUtc = (at: string): string => at.replace('T', ' ').replace('Z', ' UTC')

/** Runs in a page: returns whether an element is visible without scrolling. */
const isInView = (element: Element): boolean => {
  const { left, top, width, height } = element.getBoundingClientRect()
  const seen = document.elementFromPoint(left + width / 2, top + height / 2)
  return seen !== null && element.contains(seen)
}

const refusedAddress = {
  status: 422,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: '/problems/invalid-content',
    title: 'Invalid content',
    status: 422,
    code: 'invalid_content',
    detail: '`/allowed_addresses/0` 10.0.0.1 is no network.',
    errors: [{ pointer: '/allowed_addresses/0', code: 'invalid', detail: '10.0.0.1 is no network' }],
    instance: 'test',
  }),
}

const unconfirmed = {
  status: 503,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: '/problems/revocation-unconfirmed',
    title: 'Revocation unconfirmed',
    status: 503,
    code: 'revocation_unconfirmed',
    detail: 'Not every gateway has confirmed. Repeat the request.',
    instance: 'test',
  }),
}
