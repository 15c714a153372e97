// What is evaluated in a page is written here and runs there.
/// <reference lib="dom" />
import { apiKeySchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { accessibilityFaults } from '../support/browser.ts'
import { send } from '../support/http.ts'
import { fillTenant } from './many-keys.ts'
import {
  type World,
  choose,
  closeReveal,
  copyKey,
  fillForm,
  generate,
  open,
  openWorld,
  signInByHand,
  statusOf,
  submit,
} from './world.ts'

// A browser beside a whole system, on a machine that may have other work.
vi.setConfig({ testTimeout: 240_000 })

let world: World
beforeAll(async () => {
  world = await openWorld()
}, 600_000)
afterAll(async () => await world.close())

describe('who may not manage keys', () => {
  test.each(['auditor', 'viewer'])('a person with the role %s sees why, and neither keys nor people', async (role) => {
    const { page, context } = await world.openFor(`harbourline-${role}`)
    await page.goto(`${world.stack.consoleUrl}/settings/api-keys`)
    for (const name of ['API keys', 'Key policy']) {
      await open(page, name)
      await page.getByText('Only administrators manage API keys').waitFor()
      expect(await page.getByRole('table').count()).toBe(0)
    }
    expect(await accessibilityFaults(page)).toEqual([])
    await open(page, 'Connectors')
    await page.getByText('Only administrators manage connectors').waitFor()
    await open(page, 'People and roles')
    expect(await page.getByRole('heading', { name: 'People', exact: true }).count()).toBe(0)
    await context.close()
  })

  test('another site can make the browser of an administrator change nothing', async () => {
    const { page, context, stack } = world
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

describe('a key', () => {
  test('is generated for 30 days, 90 days, a year or until a day of one’s own', async () => {
    const { page } = world
    const dayMs = 86_400_000
    for (const [choice, days] of [
      ['30 days', 30],
      ['90 days', 90],
      ['1 year', 365],
      ['Custom', 3],
    ] as const) {
      await fillForm(page, `For ${choice}`)
      await page.getByRole('radio', { name: choice }).press('Space')
      if (choice === 'Custom') {
        const day = new Date(Date.now() + days * dayMs)
        const parts = [day.getMonth() + 1, day.getDate(), day.getFullYear()]
        for (const [index, name] of ['month, ', 'day, ', 'year, '].entries()) {
          await page.getByRole('spinbutton', { name }).pressSequentially(String(parts[index]))
        }
      }
      await submit(page)
      await page.getByText('This is the only time that you see this key').waitFor()
      await closeReveal(page)
    }
    const keys = z
      .array(apiKeySchema)
      .parse(await page.evaluate(async () => await (await fetch('/api/v1/api-keys')).json()))
    const lives = keys.map(({ label, created_at: from, expires_at: to }) => {
      return [label, Math.round((Date.parse(to) - Date.parse(from)) / dayMs)]
    })
    const [custom, ...fixed] = lives
    expect(fixed).toEqual([
      ['For 1 year', 365],
      ['For 90 days', 90],
      ['For 30 days', 30],
    ])
    expect(custom?.[0]).toBe('For Custom')
    expect([3, 4]).toContain(custom?.[1])
  })

  test('is copied once, opens what it was made for, and nothing when it has been revoked', async () => {
    const { page, stack } = world
    await fillForm(page, 'Leaking')
    await submit(page)
    const command = await page.getByLabel('A command that uses the key').textContent()
    const value = await copyKey(world)
    expect(value).toMatch(/^postern_[0-9A-Za-z]{49}$/)
    expect(command).toBe(`curl -H 'Authorization: ApiKey ${value}' ${stack.gateways[0]}/api/v1/whoami`)
    expect(await accessibilityFaults(page)).toEqual([])
    await closeReveal(page)
    expect(await page.content()).not.toContain(value)
    await page.getByRole('link', { name: 'Leaking' }).waitFor()
    expect([await statusOf(world, value, 0), await statusOf(world, value, 1)]).toEqual([200, 200])

    await choose(page, 'Leaking', 'Revoke…')
    const question = page.getByRole('alertdialog')
    await question.getByText('Leaking', { exact: true }).waitFor()
    await question.getByText('Last used').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await question.getByRole('button', { name: 'Revoke key' }).click()
    await page.getByText(/Enforced on all gateways in [\d.]+ m?s/).waitFor()
    expect([await statusOf(world, value, 0), await statusOf(world, value, 1)]).toEqual([401, 401])
    await page.getByRole('button', { name: 'Close' }).last().click()
  })

  test('is rotated: the new one works, and the old one until the overlap is over', async () => {
    const { page } = world
    const old = await generate(world, 'Rotating')
    await choose(page, 'Rotating', 'Rotate…')
    expect(await accessibilityFaults(page)).toEqual([])
    await page.getByRole('button', { name: 'Generate new key' }).click()
    const successor = await copyKey(world)
    await closeReveal(page)
    expect(successor).not.toBe(old)
    expect([await statusOf(world, old, 0), await statusOf(world, successor, 1)]).toEqual([200, 200])
    await page.getByRole('link', { name: 'Rotating' }).first().click()
    await page.getByRole('heading', { name: 'Audit trail' }).waitFor()
    await page.getByText('What it can call').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    // All that there is of the new key, wherever a browser keeps things: its value is in none of them.
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

  test('with a label that is a script is shown as text', async () => {
    const { page } = world
    const label = `<img src=x onerror="document.title='owned'"> <script>alert(1)</script>`
    await generate(world, label)
    await page.getByRole('link', { name: label }).click()
    await page.getByRole('heading', { level: 1, name: label }).waitFor()
    expect(await page.locator('img, h1 script').count()).toBe(0)
    expect(await page.title()).toContain('<img')
    await open(page, 'API keys')
  })

  test('is not made without a label and a scope, and a refused address is told', async () => {
    const { page } = world
    await page.getByRole('button', { name: 'Generate key' }).first().click()
    await submit(page)
    await page.getByText('Say which program will use the key').waitFor()
    await page.getByText('Choose at least one scope').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await page.getByRole('textbox', { name: 'Label', exact: true }).fill('Nowhere to go')
    await page.getByText('Read findings, recommendations').click()
    await page.getByRole('button', { name: 'Advanced' }).click()
    await page.getByRole('textbox', { name: 'Allowed addresses' }).fill('not-an-address')
    await submit(page)
    await page.getByText('No key was generated').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
  })
})

test('a connector is run with a file, watched, and what goes too far is looked at before it is applied', async () => {
  const { page, stack, tenants } = world
  const { key } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync'] })
  const body = {
    key: 'processes',
    name: 'Process register',
    type: 'csv',
    dataset: 'auditable_entities',
    missing_policy: 'deactivate',
  }
  const made = await send(stack.gateways[0] ?? '', '/api/v1/connectors', { key, method: 'POST', body })
  expect(made.status, made.text).toBe(201)
  const runWith = async (names: readonly string[]) => {
    await open(page, 'Connectors')
    await page.getByRole('button', { name: 'Run… Process register' }).click()
    await page.getByRole('radio', { name: /^Run it/ }).press('Space')
    const csv = ['external_id,name,type', ...names.map((name) => `${name},${name},process`)].join('\n')
    const file = { name: 'processes.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) }
    await page.getByLabel('File to read').setInputFiles(file)
    expect(await accessibilityFaults(page)).toEqual([])
    await page.getByRole('button', { name: 'Start' }).click()
  }
  await runWith(['Payments', 'Lending', 'Treasury'])
  await page.getByText('Done', { exact: true }).waitFor()
  await page.getByRole('heading', { name: 'Changes' }).waitFor()

  await runWith(['Payments'])
  await page.getByText('Needs approval', { exact: true }).waitFor()
  await page.locator('.change').getByText('Treasury').first().waitFor()
  expect(await accessibilityFaults(page)).toEqual([])
  await page.getByRole('button', { name: 'Approve…' }).click()
  expect(await accessibilityFaults(page)).toEqual([])
  await page.getByRole('button', { name: 'Approve and apply' }).click()
  await page.getByText('Done', { exact: true }).waitFor()
  const entities = await send(stack.gateways[0] ?? '', '/api/v1/entities?status=archived&count=true&limit=1', {
    key: (await stack.createKey(tenants.harbourline, { scopes: ['read:universe'] })).key,
  })
  expect(entities.headers['x-total-count'], entities.text).toBe('2')
})

test('the policy that an administrator sets binds the next key', async () => {
  const { page } = world
  await open(page, 'Key policy')
  await page.getByRole('button', { name: 'Change' }).click()
  await page.getByRole('button', { name: /Longest life of a key/ }).click()
  await page.getByRole('option', { name: '90 days' }).click()
  await page.getByRole('textbox', { name: 'Required networks' }).fill('203.0.113.0/24')
  expect(await accessibilityFaults(page)).toEqual([])
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Changed by Amara Osei').waitFor()

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
  const value = await copyKey(world)
  await closeReveal(page)
  // Made, and refused from here: this machine is not in the network.
  expect(await statusOf(world, value, 0)).toBe(403)
})

test('a receipt is shown to be true, and a spoiled one to be none', async () => {
  const { page, stack } = world
  // Of any tenant: a receipt is true for everybody.
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

test('every page is for everybody (WCAG 2.2 AA), wide and narrow, light and dark', async () => {
  const { page, stack } = world
  // Those who have signed in are told every few seconds.
  await expect
    .poll(
      async () => {
        await page.goto(`${stack.consoleUrl}/settings/people`)
        await page.getByRole('heading', { name: 'People', exact: true }).waitFor()
        await page.getByText(/Amara Osei \(you\)|Nobody yet/).waitFor()
        return await page.getByRole('row', { name: /Jonas Lindqvist.*auditor/ }).count()
      },
      { timeout: 60_000, interval: 2000 },
    )
    .toBe(1)
  for (const name of ['People and roles', 'Key policy', 'Verify a receipt', 'Connectors', 'API keys', undefined]) {
    if (name === undefined) await page.goto(`${stack.consoleUrl}/nowhere`)
    else await open(page, name)
    await page.locator('[aria-busy]').first().waitFor({ state: 'detached' })
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const width of [1280, 360]) {
        await page.emulateMedia({ colorScheme })
        await page.setViewportSize({ width, height: 640 })
        expect(await accessibilityFaults(page), `${name}, ${colorScheme}, ${width}`).toEqual([])
        const isTooWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
        expect(isTooWide, `${name} scrolls sideways at ${width}`).toBe(false)
      }
    }
    await page.setViewportSize({ width: 1280, height: 640 })
  }
  // Loaded at this width, and the way to the other pages that there is at it.
  await page.setViewportSize({ width: 360, height: 640 })
  await page.goto(`${stack.consoleUrl}/settings/api-keys`)
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('dialog', { name: 'Menu' }).waitFor()
  expect(await accessibilityFaults(page)).toEqual([])
  await open(page, 'Key policy')
  await page.setViewportSize({ width: 1280, height: 640 })
})

test('of five thousand keys only those near the screen are drawn, and one is found at once', async () => {
  await fillTenant(world.stack, world.tenants.korvex.id, 5000)
  const { page, context } = await world.openFor('korvex-admin')
  await page.goto(`${world.stack.consoleUrl}/settings/api-keys`)
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
  await context.close()
})

describe('a session', () => {
  test('that was not used for half an hour has ended, leaves nothing on the screen, and signing in leads back', async () => {
    const { page, context } = await world.openFor('korvex-admin')
    await page.goto(`${world.stack.consoleUrl}/settings/policy`)
    await page.getByRole('heading', { level: 1, name: 'Key policy' }).waitFor()
    expect(await page.getByText('korvex').count()).toBeGreaterThan(0)
    await world.letSessionsLie(31 * 60_000)
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    expect(await page.getByText('korvex').count()).toBe(0)
    expect(await accessibilityFaults(page)).toEqual([])
    await signInByHand(page, 'Sign in again', 'korvex-admin')

    await page.getByRole('button', { name: /^Account of/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.getByRole('heading', { name: 'Sign in to Postern' }).waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await page.goBack()
    await page.goto(`${world.stack.consoleUrl}/settings/api-keys`)
    await page.getByRole('heading', { name: 'Sign in to Postern' }).waitFor()
    await context.close()
  })
})

test('no page has met an error or broken its content policy', () => {
  expect(world.complaints).toEqual([])
})
