// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { type PrefixProxy, type TestStack, startPrefixProxy, startTestStack } from '@postern/local-stack/testing'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { startBrowser } from '../support/browser.ts'
import { open, signInByHand } from './world.ts'

// A browser and a whole system on a machine that may be busy.
vi.setConfig({ testTimeout: 240_000 })

let consoleProxy: PrefixProxy
let gatewayProxy: PrefixProxy
let stack: TestStack
let browser: Browser
let page: Page
/** Errors and policy violations of the pages, and requests outside of the prefix. */
const complaints: string[] = []

beforeAll(async () => {
  ;[consoleProxy, gatewayProxy] = await Promise.all([
    startPrefixProxy('/postern-console'),
    startPrefixProxy('/postern'),
  ])
  const env = { POSTERN_CONSOLE_URL: consoleProxy.url, POSTERN_API_URL: gatewayProxy.url }
  ;[stack, browser] = await Promise.all([startTestStack({ console: true, env }), startBrowser()])
  consoleProxy.forwardTo(stack.consoleUrl)
  gatewayProxy.forwardTo(stack.gateways[0] ?? '')
  await stack.nameTenants({
    harbourline: await stack.createTenant('harbourline'),
    korvex: await stack.createTenant('korvex'),
  })
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 640 } })
  page = await context.newPage()
  page.setDefaultTimeout(60_000)
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('request', (request) => {
    const { origin, pathname } = new URL(request.url())
    const isOutside = origin === new URL(consoleProxy.url).origin && !pathname.startsWith('/postern-console/')
    if (isOutside) complaints.push(`asked for ${request.url()}`)
  })
}, 600_000)
afterAll(async () => {
  await browser.close()
  await stack.stop()
  await Promise.all([consoleProxy[Symbol.asyncDispose](), gatewayProxy[Symbol.asyncDispose]()])
})

const titleOf = async (name: string): Promise<void> => {
  await page.getByRole('heading', { level: 1, name }).waitFor()
}

describe('a console that a proxy publishes below a path', () => {
  test('signs in, opens and reloads every page, creates a working key, and signs out', async () => {
    await page.goto(`${consoleProxy.url}/`)
    await signInByHand(page, 'Continue with your organization', 'harbourline-admin')
    for (const [name, path] of [
      ['People and roles', '/settings/people'],
      ['Key policy', '/settings/policy'],
      ['Webhooks', '/settings/webhooks'],
      ['Connectors', '/connectors'],
      ['Verify a receipt', '/verify'],
      ['API keys', '/settings/api-keys'],
    ] as const) {
      await open(page, name)
      expect(page.url()).toBe(consoleProxy.url + path)
      await page.reload()
      await titleOf(name)
    }
    await page.goBack()
    await titleOf('Verify a receipt')
    await page.goForward()
    await titleOf('API keys')

    await page.getByRole('button', { name: 'Generate key' }).first().click()
    await page.getByRole('textbox', { name: 'Label', exact: true }).fill('Below a path')
    await page.getByText('Read findings, recommendations').click()
    await page.getByRole('button', { name: 'Generate', exact: true }).click()
    const command = (await page.getByLabel('A program that uses the key').textContent()) ?? ''
    const key = (await page.getByText(/^postern_[0-9A-Za-z]{49}$/).textContent()) ?? ''
    const [, url = ''] = /'(http\S+)'$/.exec(command.trim()) ?? []
    expect(url).toBe(`${gatewayProxy.url}/api/v1/whoami`)
    expect((await fetch(url, { headers: { authorization: `ApiKey ${key}` } })).status).toBe(200)
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('button', { name: /^(?:Yes, close|Close without it)$/ }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })

    await page.getByRole('link', { name: 'Below a path' }).click()
    await titleOf('Below a path')
    expect(page.url()).toMatch(new RegExp(`^${consoleProxy.url}/settings/api-keys/[0-9a-f-]{36}$`))
    await page.reload()
    await titleOf('Below a path')

    await page.getByRole('button', { name: /^Account of/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByText('You are signed out').waitFor()
    await page.goto(`${consoleProxy.url}/connectors`)
    await page.getByRole('link', { name: 'Continue with your organization' }).waitFor()
    expect(complaints).toEqual([])
  })

  test('shows the page without a trailing slash in the path', async () => {
    await page.goto(consoleProxy.url)
    const link = page.getByRole('link', { name: 'Continue with your organization' })
    expect(await link.getAttribute('href')).toBe('/postern-console/auth/login?return_to=%2F')
  })
})

describe('the reference that a proxy publishes below a path', () => {
  test('sends a request with a key, keeps the key in its memory, and asks no other host', async () => {
    const tenant = await stack.createTenant()
    const { key } = await stack.createKey(tenant, { label: 'Tried out', scopes: ['read:findings'] })
    const context = await browser.newContext({ viewport: { width: 1400, height: 1000 } })
    const reference = await context.newPage()
    reference.setDefaultTimeout(60_000)
    const [faults, asked]: [string[], string[]] = [[], []]
    reference.on('pageerror', (error) => faults.push(error.message))
    reference.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text())
    })
    reference.on('request', (request) => asked.push(request.url()))

    await reference.goto(`${gatewayProxy.url}/docs#tag/access/GET/api/v1/whoami`)
    await reference.locator('input[autocomplete="off"]').first().fill(`ApiKey ${key}`)
    await reference.getByRole('button', { name: /^Test Request.*whoami/ }).click()
    await reference.getByRole('button', { name: /^Send/ }).first().click()
    await reference.getByText('"Tried out"').first().waitFor()

    expect(asked).toContain(`${gatewayProxy.url}/api/v1/whoami`)
    expect(asked.filter((url) => !url.startsWith(`${gatewayProxy.url}/`))).toEqual([])
    const kept = await reference.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie]))
    expect(kept).not.toContain('postern_')
    expect(faults).toEqual([])
    await context.close()
  })

  test('shows the operation that a refusal links to', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
    const target = `${gatewayProxy.url}/api/v1/entities/ext:a`
    const refusal = await fetch(target, { headers: { authorization: `ApiKey ${key}` } })
    const { documentation } = z.object({ documentation: z.string() }).parse(await refusal.json())
    const reference = await browser.newPage()
    await reference.goto(new URL(documentation, gatewayProxy.url).href)
    const heading = reference.getByRole('heading', { name: 'Read an auditable entity' }).first()
    await expect.poll(async () => (await heading.boundingBox())?.y, { timeout: 60_000 }).toBeLessThan(500)
    await reference.close()
  })
})
