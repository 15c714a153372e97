// What is evaluated in a page is written here and runs there.
/// <reference lib="dom" />
import { apiKeySchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { accessibilityFaults, startBrowser } from '../support/browser.ts'
import { send } from '../support/http.ts'

// A browser beside a whole system, on a machine that may have other work.
vi.setConfig({ testTimeout: 120_000 })

let stack: TestStack
let browser: Browser
let context: BrowserContext
let page: Page
/** Some other page of the same browser, into which one pastes. */
let notepad: Page
let tenant: { readonly id: string }
/** What a page has said against itself: a refused script, an error that nobody caught. */
const complaints: string[] = []

async function signedIn(person: string): Promise<{ context: BrowserContext; page: Page }> {
  const ownContext = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1440, height: 900 } })
  await ownContext.grantPermissions(['clipboard-read', 'clipboard-write'])
  const ownPage = await ownContext.newPage()
  ownPage.setDefaultTimeout(20_000)
  ownPage.on('pageerror', (error) => complaints.push(error.message))
  ownPage.on('console', (message) => {
    // Chromium itself writes a line for every answer that is a refusal.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text())
  })
  await ownPage.goto(`${stack.consoleUrl}/settings/api-keys`)
  await ownPage.getByRole('link', { name: 'Continue with your organization' }).click()
  await ownPage.locator(`button[value="${person}"]`).click()
  await ownPage.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
  return { context: ownContext, page: ownPage }
}

beforeAll(async () => {
  const [running, started] = await Promise.all([startTestStack({ console: true, gateways: 2 }), startBrowser()])
  stack = running
  browser = started
  tenant = await stack.createTenant('harbourline')
  await stack.nameTenants({ harbourline: tenant, korvex: await stack.createTenant('korvex') })
  ;({ context, page } = await signedIn('harbourline-admin'))
  notepad = await context.newPage()
  await notepad.route('**/*', async (route) => await route.fulfill({ contentType: 'text/html', body: '<p>Notes' }))
  await notepad.goto('http://localhost/')
  await page.bringToFront()
}, 300_000)

afterAll(async () => {
  await browser.close()
  await stack.stop()
})

async function openList(): Promise<void> {
  await page.goto(`${stack.consoleUrl}/settings/api-keys`)
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
}

async function fillForm(label: string): Promise<void> {
  await page.getByRole('button', { name: 'Generate key' }).first().click()
  await page.getByRole('textbox', { name: 'Label', exact: true }).fill(label)
  await page.getByText('Read findings, recommendations').click()
}

const submit = async () => await page.getByRole('button', { name: 'Generate', exact: true }).click()

async function closeReveal(): Promise<void> {
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: /^(?:Yes, close|Close without it)$/ }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

/** Copies as a person does, and reads what is then in the clipboard. */
async function copyKey(): Promise<string> {
  await page.getByRole('button', { name: 'Copy key' }).click()
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  // Not there: the console's own pages may write to the clipboard, and not read it.
  await notepad.bringToFront()
  const text = await notepad.evaluate(async () => await navigator.clipboard.readText())
  await page.bringToFront()
  return text
}

async function generate(label: string): Promise<string> {
  await fillForm(label)
  await submit()
  const value = await copyKey()
  await closeReveal()
  return value
}

async function choose(label: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${label}` }).click()
  await page.getByRole('menuitem', { name: action }).click()
}

const statusOf = async (key: string, gateway: number) =>
  (await send(stack.gateways[gateway] ?? '', '/api/v1/whoami', { key })).status

describe('who may not manage keys', () => {
  test.each(['auditor', 'viewer'])('a person with the role %s sees why, and no key', async (role) => {
    const other = await signedIn(`harbourline-${role}`)
    await other.page.getByText('Only administrators manage API keys').waitFor()
    expect(await other.page.getByRole('table').count()).toBe(0)
    expect(await accessibilityFaults(other.page)).toEqual([])
    await other.context.close()
  })

  test('another site can make the browser of an administrator change nothing', async () => {
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
    await openList()
    await page.getByText('No keys yet').waitFor()
  })
})

describe('a key', () => {
  test('is generated for 30 days, 90 days, a year or until a day of one’s own', async () => {
    await openList()
    const dayMs = 86_400_000
    for (const [choice, days] of [
      ['30 days', 30],
      ['90 days', 90],
      ['1 year', 365],
      ['Custom', 3],
    ] as const) {
      await fillForm(`For ${choice}`)
      await page.getByRole('radio', { name: choice }).press('Space')
      if (choice === 'Custom') {
        const day = new Date(Date.now() + days * dayMs)
        const parts = [day.getMonth() + 1, day.getDate(), day.getFullYear()]
        for (const [index, name] of ['month, ', 'day, ', 'year, '].entries()) {
          await page.getByRole('spinbutton', { name }).pressSequentially(String(parts[index]))
        }
      }
      await submit()
      await page.getByText('This is the only time that you see this key').waitFor()
      await closeReveal()
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
    await openList()
    await fillForm('Leaking')
    await submit()
    const command = await page.getByLabel('A command that uses the key').textContent()
    const value = await copyKey()
    expect(value).toMatch(/^postern_[0-9A-Za-z]{49}$/)
    expect(command).toBe(`curl -H 'Authorization: ApiKey ${value}' ${stack.gateways[0]}/api/v1/whoami`)
    expect(await accessibilityFaults(page)).toEqual([])
    await closeReveal()
    expect(await page.content()).not.toContain(value)
    await page.getByRole('link', { name: 'Leaking' }).waitFor()
    expect([await statusOf(value, 0), await statusOf(value, 1)]).toEqual([200, 200])

    await choose('Leaking', 'Revoke…')
    const question = page.getByRole('alertdialog')
    await question.getByText('Leaking', { exact: true }).waitFor()
    await question.getByText('Last used').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await question.getByRole('button', { name: 'Revoke key' }).click()
    await page.getByText(/Enforced on all gateways in [\d.]+ m?s/).waitFor()
    expect([await statusOf(value, 0), await statusOf(value, 1)]).toEqual([401, 401])
    await page.getByRole('button', { name: 'Close' }).last().click()
  })

  test('is nowhere but in that dialog: not in the address, the history, storage or a cookie', async () => {
    await openList()
    const value = await generate('Nowhere')
    const kept = await page.evaluate(async () => {
      const names = (await indexedDB.databases()).map(({ name }) => name)
      const state: unknown = history.state
      return JSON.stringify([location.href, state, { ...localStorage }, { ...sessionStorage }, document.cookie, names])
    })
    expect(kept).not.toContain(value.slice(8))
    await page.goBack()
    await page.goForward()
    expect(await page.content()).not.toContain(value.slice(8))
  })

  test('is rotated: the new one works, and the old one until the overlap is over', async () => {
    await openList()
    const old = await generate('Rotating')
    await choose('Rotating', 'Rotate…')
    expect(await accessibilityFaults(page)).toEqual([])
    await page.getByRole('button', { name: 'Generate new key' }).click()
    const successor = await copyKey()
    await closeReveal()
    expect(successor).not.toBe(old)
    expect([await statusOf(old, 0), await statusOf(successor, 1)]).toEqual([200, 200])
    await page.getByRole('link', { name: 'Rotating' }).first().click()
    await page.getByRole('heading', { name: 'Audit trail' }).waitFor()
    await page.getByText('What it can call').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
  })

  test('with a label that is a script is shown as text', async () => {
    await openList()
    const label = `<img src=x onerror="document.title='owned'"> <script>alert(1)</script>`
    await generate(label)
    await page.getByRole('link', { name: label }).click()
    await page.getByRole('heading', { level: 1, name: label }).waitFor()
    expect(await page.locator('img, h1 script').count()).toBe(0)
    expect(await page.title()).toContain('<img')
  })

  test('is not made without a label and a scope, and a refused address is told', async () => {
    await openList()
    await page.getByRole('button', { name: 'Generate key' }).click()
    await submit()
    await page.getByText('Say which program will use the key').waitFor()
    await page.getByText('Choose at least one scope').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await page.getByRole('textbox', { name: 'Label', exact: true }).fill('Nowhere to go')
    await page.getByText('Read findings, recommendations').click()
    await page.getByRole('button', { name: 'Advanced' }).click()
    await page.getByRole('textbox', { name: 'Allowed addresses' }).fill('not-an-address')
    await submit()
    await page.getByText('No key was generated').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
  })
})

test.each(['light', 'dark'] as const)(
  'every page is for everybody (WCAG 2.2 AA), wide and narrow, %s',
  async (scheme) => {
    await page.emulateMedia({ colorScheme: scheme })
    for (const width of [1440, 360]) {
      await page.setViewportSize({ width, height: 800 })
      for (const path of ['/settings/api-keys', '/settings/people', '/settings/policy', '/verify', '/nowhere']) {
        await page.goto(stack.consoleUrl + path, { waitUntil: 'networkidle' })
        await page.locator('h1').waitFor()
        expect(await accessibilityFaults(page), `${path} ${width}`).toEqual([])
        const isTooWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
        expect(isTooWide, `${path} ${width} scrolls sideways`).toBe(false)
      }
    }
    await page.setViewportSize({ width: 1440, height: 900 })
  },
)

test('a session that has ended leaves nothing on the screen, and signing in leads back', async () => {
  const other = await signedIn('korvex-admin')
  await other.page.goto(`${stack.consoleUrl}/settings/policy`)
  await other.page.getByRole('heading', { level: 1, name: 'Key policy' }).waitFor()
  await other.context.clearCookies({ domain: '127.0.0.1' })
  await other.page.getByRole('link', { name: 'API keys' }).click()
  await other.page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
  expect(await other.page.getByText('korvex').count()).toBe(0)
  expect(await accessibilityFaults(other.page)).toEqual([])
  await other.page.getByRole('link', { name: 'Sign in again' }).click()
  await other.page.locator('button[value="korvex-admin"]').click()
  await other.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
  await other.context.close()
})

test('no page has met an error or broken its content policy', () => {
  expect(complaints).toEqual([])
})
