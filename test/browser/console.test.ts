/**
 * @promise Browser: Texts from the API never become markup or scripts in the console (XSS).
 * @alsoShownBy services/console/test/pages.test.ts
 */

// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { operator } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { accessibilityFaults } from '../support/browser.ts'
import { send } from '../support/http.ts'
import { hostileTextTests } from './hostile-texts.ts'
import { fillTenant } from './many-keys.ts'
import { testComplaints, useWorld } from './use-world.ts'
import { closeReveal, copyKey, fillForm, open, signInByHand, statusOf, submit } from './world.ts'

/** Runs in a page: sends every request that only administrators may send, as the pages do. Returns the statuses. */
const tryEverything = async (): Promise<readonly number[]> => {
  const { csrf_token: token }: { readonly csrf_token: string } = await (await fetch('/auth/session')).json()
  const ask = async (method: string, path: string, body?: object) => {
    const headers = { 'x-csrf-token': token, 'content-type': 'application/json', 'if-match': '"1"' }
    return (await fetch(path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }))
      .status
  }
  const key = { label: 'Mine', expires_in: '30d', scopes: ['read:findings'] }
  return [
    await ask('GET', '/api/v1/api-keys'),
    await ask('POST', '/api/v1/api-keys', key),
    await ask('PATCH', '/api/v1/key-policy', { max_key_days: 7 }),
    await ask('GET', '/api/v1/members'),
    await ask('GET', '/api/v1/connectors'),
  ]
}

/** Runs in a page: returns its Cumulative Layout Shift since it began to load. */
const layoutShift = async (): Promise<number> =>
  await new Promise((resolve) => {
    let sum = 0
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) sum += Number(Reflect.get(entry, 'value'))
    }).observe({ type: 'layout-shift', buffered: true })
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(sum))))
  })

const world = useWorld()

describe('people who may not manage keys', () => {
  test.each(['auditor', 'viewer'])('a person with the role %s sees why, and neither keys nor people', async (role) => {
    const page = await world().pageOf(`harbourline-${role}`)
    await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
    for (const name of ['API keys', 'Key policy']) {
      await open(page, name)
      await page.getByText('Only administrators can manage API keys').waitFor()
      expect(await page.getByRole('table').count()).toBe(0)
    }
    expect(await accessibilityFaults(page)).toEqual([])
    await open(page, 'Connectors')
    await page.getByText('Only administrators can manage connectors').waitFor()
    expect(await page.getByRole('button', { name: 'New connector' }).count()).toBe(0)
    await open(page, 'People and roles')
    expect(await page.getByRole('heading', { name: 'People', exact: true }).count()).toBe(0)
    // Requests that the pages do not offer are rejected as well.
    expect(await page.evaluate(tryEverything)).toEqual([403, 403, 403, 403, 403])
  })

  test('an administrator of a suspended organization sees that it is suspended, not that a role is missing', async () => {
    const { stack, tenants } = world()
    const act = async (action: 'suspend' | 'resume') => {
      const path = `/internal/v1/tenants/${tenants.korvex.id}/${action}`
      expect((await stack.operator.call(operator, 'POST', path)).status).toBe(200)
    }
    const { context, page } = await world().openFor('korvex-admin')
    const places = [
      '/settings/api-keys',
      `/settings/api-keys/${crypto.randomUUID()}`,
      '/settings/policy',
      '/connectors',
    ]
    await act('suspend')
    for (const place of places) {
      await page.goto(stack.consoleUrl + place)
      await page.getByText('The platform has suspended the tenant.').first().waitFor()
      expect(await page.getByText('Only administrators').count(), place).toBe(0)
    }
    await act('resume')
    await page.goto(stack.consoleUrl + '/settings/api-keys')
    await page.getByRole('button', { name: 'Generate key' }).first().waitFor()
    await context.close()
  })

  test("another site cannot change anything through an administrator's browser", async () => {
    const { page, context, stack } = world()
    const csrf = await page.evaluate(async () => {
      const body = JSON.stringify({ label: 'Forged', expires_in: '30d', scopes: ['*'] })
      const headers = { 'content-type': 'application/json' }
      return (await fetch('/api/v1/api-keys', { method: 'POST', body, headers })).status
    })
    expect(csrf).toBe(403)
    const evil = await context.newPage()
    const stranger = stack.consoleUrl.replace('127.0.0.1', 'localhost')
    await evil.route(`${stranger}/evil`, async (route) => {
      await route.fulfill({
        contentType: 'text/html',
        body: `<form method="post" enctype="text/plain" action="${stack.consoleUrl}/api/v1/api-keys"><input name='{"label":"Forged","expires_in":"30d","scopes":["*"],"x":"' value='"}'></form>`,
      })
    })
    await evil.goto(`${stranger}/evil`)
    // A request without a preflight that would sign her out or create a key.
    const blind = await evil.evaluate(async (origin) => {
      const options = { method: 'POST', mode: 'no-cors', credentials: 'include' } as const
      const paths = ['/auth/logout', '/api/v1/api-keys']
      const outcomes = paths.map(
        async (path) => await fetch(`${origin}${path}`, { ...options, body: '{"label":"Forged"}' }),
      )
      return (await Promise.allSettled(outcomes)).map(({ status }) => status)
    }, stack.consoleUrl)
    // It cannot even see the response. Below, the session still exists.
    expect(blind).toEqual(['rejected', 'rejected'])
    // The same with a form.
    const [answer] = await Promise.all([
      evil.waitForResponse(`${stack.consoleUrl}/api/v1/api-keys`),
      evil.evaluate(() => document.forms[0]?.submit()),
    ])
    expect([401, 403]).toContain(answer.status())
    await evil.close()
    await page.reload()
    await page.getByText('No keys yet').waitFor()
  })
})

hostileTextTests(world)

/** Opens a page of an administrator that cannot load a file. The browser's errors about it are expected. */
const openWithout = async (missing: RegExp) => {
  const { context } = await world().openFor('harbourline-admin')
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  await page.route(missing, async (route) => await route.abort())
  await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
  return { context, page }
}

describe('a part of the console whose file was replaced by a new release', () => {
  test('shows an error in its dialog, keeps the page, and works after a reload', async () => {
    const file = /\/assets\/generate-dialog-[^/]*\.js$/
    const { context, page } = await openWithout(file)
    const told = page.getByRole('alertdialog', { name: 'This part could not be loaded.' })
    // Again: the button can be pressed again after closing.
    for (let times = 0; times < 2; times += 1) {
      await page.getByRole('button', { name: 'Generate key' }).first().click()
      await told.waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      await told.getByRole('button', { name: 'Close' }).click()
      await told.waitFor({ state: 'detached' })
      await page.getByRole('table', { name: 'API keys' }).waitFor()
    }
    await page.getByRole('button', { name: 'Generate key' }).first().click()
    await page.unroute(file)
    await told.getByRole('button', { name: 'Load the page again' }).click()
    await page.getByRole('button', { name: 'Generate key' }).first().click()
    await page.getByRole('textbox', { name: 'Label', exact: true }).waitFor()
    await context.close()
  })

  test('shows an error in its page, keeps other pages usable, and works after a reload', async () => {
    const file = /\/assets\/connectors-page-[^/]*\.js$/
    const { context, page } = await openWithout(file)
    const told = page.getByRole('alert').filter({ hasText: 'This part could not be loaded.' })
    const connectors = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Connectors' })
    await connectors.click()
    await told.waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await open(page, 'People and roles')
    expect(await told.count()).toBe(0)
    await connectors.click()
    await told.waitFor()
    await page.unroute(file)
    await told.getByRole('button', { name: 'Load the page again' }).click()
    await page.getByRole('heading', { level: 1, name: 'Connectors' }).waitFor()
    await context.close()
  })
})

test('a new policy applies to the next key', async () => {
  const { page } = world()
  await open(page, 'Key policy')
  await page.getByRole('button', { name: 'Change' }).click()
  await page.getByRole('button', { name: /Maximum lifetime of a key/ }).click()
  await page.getByRole('option', { name: '90 days' }).click()
  await page.getByRole('textbox', { name: 'Required networks' }).fill('203.0.113.0/24')
  const retention = page.getByRole('textbox', { name: 'Keep audit events for (days)' })
  await retention.fill('89')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Enter a whole number from 90 to 3,650.').waitFor()
  await retention.fill('730')
  expect(await accessibilityFaults(page)).toEqual([])
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Changed by Amara Osei').waitFor()
  await page.getByText('Kept for 2 years').waitFor()

  await open(page, 'API keys')
  await fillForm(page, 'From the office')
  expect(await page.getByRole('radio', { name: '1 year' }).isDisabled()).toBe(true)
  await submit(page)
  await page.getByText('Your organization requires addresses').waitFor()
  const addresses = page.getByRole('textbox', { name: 'Allowed addresses' })
  await addresses.fill('198.51.100.7')
  await submit(page)
  await page.getByText('must lie within 203.0.113.0/24').waitFor()
  expect(await accessibilityFaults(page)).toEqual([])
  await addresses.fill('203.0.113.7')
  await submit(page)
  const value = await copyKey(world())
  await closeReveal(page)
  // Created, but rejected from here: this machine is not in the network.
  expect(await statusOf(world(), value, 0)).toBe(403)
})

test('a genuine receipt is shown as genuine, and a changed one as invalid', async () => {
  const { page, stack } = world()
  // Receipts of every tenant are genuine for everybody.
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] })
  const headers = { 'content-type': 'text/plain' }
  const upload = { key, method: 'POST', headers, body: 'As seen.' } as const
  const receipt = await send(stack.gateways[0] ?? '', '/api/v1/evidence?file_name=seen.txt', upload)
  expect(receipt.status, receipt.text).toBe(201)
  await open(page, 'Verify a receipt')
  const chooser = page.getByLabel('File to verify')
  await chooser.setInputFiles(fileOf(receipt.text))
  await page.getByText('The signature is valid').waitFor()
  expect(await page.getByText('Changed after it was signed').count()).toBe(0)
  expect(await accessibilityFaults(page)).toEqual([])
  await chooser.setInputFiles(fileOf(receipt.text.replace('seen.txt', 'sent.txt')))
  await page.getByText('Changed after it was signed: file_name').waitFor()
})

function fileOf(text: string) {
  return { name: 'receipt.json', mimeType: 'application/json', buffer: Buffer.from(text) }
}

test('every page is accessible (WCAG 2.2 AA), wide and narrow, light and dark', async () => {
  const { page, stack } = world()
  // Sign-ins are reported every few seconds.
  await expect
    .poll(
      async () =>
        await page.evaluate(async () => {
          const members: { readonly id: string }[] = await (await fetch('/api/v1/members')).json()
          return members.map(({ id }) => id)
        }),
      { timeout: 60_000, interval: 500 },
    )
    .toContain('harbourline-auditor')
  for (const name of [
    'People and roles',
    'Key policy',
    'Webhooks',
    'Verify a receipt',
    'Connectors',
    'API keys',
    undefined,
  ]) {
    if (name === undefined) await page.goto(`${stack.consoleUrl}/nowhere`)
    else await open(page, name)
    await page.locator('[aria-busy]').first().waitFor({ state: 'detached' })
    if (name === 'People and roles') {
      await page.getByText('Amara Osei (you)').waitFor()
      await page.getByRole('row', { name: /Jonas Lindqvist.*auditor/ }).waitFor()
    }
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 640 })
      expect(await accessibilityFaults(page), `${name}, ${width}`).toEqual([])
      const isTooWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
      expect(isTooWide, `${name} scrolls sideways at ${width}`).toBe(false)
    }
    await page.setViewportSize({ width: 1280, height: 640 })
  }
  // Loaded at this width, with its navigation.
  await page.setViewportSize({ width: 360, height: 640 })
  await page.goto(`${stack.consoleUrl}/settings/api-keys`)
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('dialog', { name: 'Menu' }).waitFor()
  expect(await accessibilityFaults(page)).toEqual([])
  await open(page, 'Key policy')
  await page.setViewportSize({ width: 1280, height: 640 })
})

test('the layout does not shift while a page loads', async () => {
  const page = await world().pageOf('harbourline-admin')
  const { id } = await world().stack.createKey(world().tenants.harbourline, {
    scopes: ['read:findings'],
    // Within the new policy.
    allowedAddresses: ['203.0.113.7/32'],
  })
  for (const path of [`/settings/api-keys/${id}`, '/settings/api-keys', '/settings/people', '/connectors']) {
    await page.goto(`${world().stack.consoleUrl}${path}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.locator('[aria-busy]').first().waitFor({ state: 'detached' })
    expect(await page.evaluate(layoutShift), path).toBeLessThan(0.01)
  }
})

describe('a session', () => {
  test('ends after half an hour without use, clears the screen, and signing in returns to the page', async () => {
    const page = await world().pageOf('korvex-admin')
    await page.goto(`${world().stack.consoleUrl}/settings/policy`)
    await page.getByRole('heading', { level: 1, name: 'Key policy' }).waitFor()
    expect(await page.getByText('korvex').count()).toBeGreaterThan(0)
    // Shortly before the end the page warns, and one press extends the session.
    await world().letSessionsLie(28.5 * 60_000)
    await page.reload()
    await page.getByText('You will be signed out soon').waitFor()
    expect(await accessibilityFaults(page), 'the warning').toEqual([])
    await page.getByRole('button', { name: 'Stay signed in' }).click()
    await page.getByText('You will be signed out soon').waitFor({ state: 'detached' })
    // Even above a dialog.
    await world().letSessionsLie(28.5 * 60_000)
    await page.reload()
    await page.getByText('You will be signed out soon').waitFor()
    await page.getByRole('button', { name: 'Change', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    expect(await accessibilityFaults(page), 'the warning over a dialog').toEqual([])
    await page.getByRole('button', { name: 'Stay signed in' }).click()
    await page.getByText('You will be signed out soon').waitFor({ state: 'detached' })
    expect(await page.getByRole('dialog').count()).toBe(1)
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await world().letSessionsLie(31 * 60_000)
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    expect(await page.getByText('korvex').count()).toBe(0)
    expect(await accessibilityFaults(page)).toEqual([])
    await signInByHand(page, 'Sign in again', 'korvex-admin')
    expect(new URL(page.url()).pathname).toBe('/settings/api-keys')

    await page.getByRole('button', { name: /^Account of/ }).click()
    await page.getByRole('menu').waitFor()
    expect(await accessibilityFaults(page), 'the menu').toEqual([])
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    // One press signs out. The provider's sign-out is offered but not opened.
    await page.getByRole('heading', { name: 'You are signed out' }).and(page.locator(':focus')).waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    expect(new URL(page.url()).origin).toBe(world().stack.consoleUrl)
    await page.getByRole('link', { name: 'Sign out there too' }).click()
    // The provider signs out without another question.
    await page.getByRole('heading', { name: 'Sign in to Postern' }).waitFor()
    await page.goBack()
    await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
    await page.getByRole('heading', { name: 'Sign in to Postern' }).waitFor()
  })

  test('warns before it ends and before a shown key is lost', async () => {
    const page = await world().pageOf('harbourline-admin')
    await page.route('**/auth/session', async (route) => {
      const response = await route.fetch()
      const end = new Date(Date.now() + 4000).toISOString()
      const session: object = await response.json()
      const nearlyOver = { ...session, expires_at: end, idle_expires_at: end }
      await route.fulfill(response.ok() ? { response, json: nearlyOver } : { response })
    })
    await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
    await page.getByText('You will have to sign in again soon').waitFor()
    await fillForm(page, 'Nobody has it')
    // As the new policy requires.
    await page.getByRole('textbox', { name: 'Allowed addresses' }).fill('203.0.113.7')
    await submit(page)
    await page.getByText('Copy the key before that').waitFor()
    expect(await accessibilityFaults(page), 'the warning beside a key').toEqual([])
    const value = await page.locator('[data-secret]').textContent()
    await world().letSessionsLie(31 * 60_000)
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    await page.getByText('The key that was shown had not been copied').waitFor()
    expect(value).toMatch(/^postern_/)
    expect(await page.content()).not.toContain(value)
    expect(await accessibilityFaults(page)).toEqual([])
    await page.unroute('**/auth/session')
  })
})

test('of 5,000 keys only those near the screen are drawn, and a search is immediate', async () => {
  await fillTenant(world().stack, world().tenants.korvex.id, 5000)
  const page = await world().pageOf('korvex-admin')
  await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
  const table = page.getByRole('table', { name: 'API keys' })
  await expect.poll(async () => await table.getAttribute('aria-rowcount'), { timeout: 60_000 }).toBe('5001')
  const drawn = async () => await table.getByRole('row').count()
  expect(await drawn()).toBeLessThan(60)
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight))
  await page.getByRole('link', { name: 'Key 0001', exact: true }).waitFor()
  expect(await drawn()).toBeLessThan(60)
  await page.getByRole('searchbox').fill('key 4711')
  await page.getByRole('link', { name: 'Key 4711', exact: true }).waitFor()
  expect(await drawn()).toBe(2)
})

test('low contrast is detected in light and dark', async () => {
  const page = await world().pageOf('harbourline-viewer')
  await page.goto(`${world().stack.consoleUrl}/verify`)
  await page.getByRole('heading', { level: 1, name: 'Verify a receipt' }).waitFor()
  await page.evaluate(() => {
    const [title] = document.getElementsByTagName('h1')
    title?.style.setProperty('color', 'light-dark(#ddd, #333)')
  })
  const faults = await accessibilityFaults(page)
  expect(faults.map((fault) => fault.split(' ').slice(0, 2).join(' '))).toEqual([
    'color-contrast #page-title',
    'dark: color-contrast',
  ])
})

testComplaints(world)
