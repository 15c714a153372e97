// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { type TestStack, createTestBrowser, startTestStack } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import type { Browser, BrowserContext, Page, Route } from 'playwright-core'
import { startBrowser } from '../support/browser.ts'
import { send } from '../support/http.ts'

/** A running system with two demo tenants and a browser of an administrator. */
export interface World {
  readonly stack: TestStack
  /** The administrator's page, signed in by hand. */
  readonly page: Page
  readonly context: BrowserContext
  readonly tenants: Readonly<Record<'harbourline' | 'korvex', { readonly id: string }>>
  /** Keys created in the console, by label. */
  readonly made: Map<string, MadeKey>
  /** Errors and policy violations of the pages. */
  readonly complaints: readonly string[]
  /** The page of another signed-in person; all use one page in turn. */
  pageOf(person: string): Promise<Page>
  /** Opens a fresh browser context with the session of a demo person, or without. */
  openFor(person?: string): Promise<{ readonly context: BrowserContext; readonly page: Page }>
  /** Returns the clipboard by pasting it elsewhere, because the console's pages may only write it. */
  paste(): Promise<string>
  /** Makes sessions look unused for this time. */
  letSessionsLie(ms: number): Promise<void>
  close(): Promise<void>
}

export interface MadeKey {
  readonly value: string
  /** The command that was shown with it. */
  readonly command: string
}

/** Signs in on the provider's page, like a person. */
export async function signInByHand(page: Page, link: string, person: string): Promise<void> {
  await page.getByRole('link', { name: link }).click()
  await page.locator(`button[value="${person}"]`).click()
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
}

async function newPage(context: BrowserContext, complaints: string[]): Promise<Page> {
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`))
  page.on('console', (message) => {
    // Chromium logs a line for every error response.
    const isRefusal = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isRefusal) complaints.push(`${message.location().url}: ${message.text()}`)
  })
  return page
}

export async function openWorld({ gateways = 1 } = {}): Promise<World> {
  const [stack, browser] = await Promise.all([
    startTestStack({
      console: true,
      gateways,
      env: {
        POSTERN_SYNC_NETWORKS: '127.0.0.1/32',
        // Nothing listens there.
        POSTERN_SMTP_URL: 'smtp://127.0.0.1:9',
        POSTERN_SMTP_FROM: 'postern@harbourline.example',
      },
    }),
    startBrowser(),
  ])
  const complaints: string[] = []
  const tenants = { harbourline: await stack.createTenant('harbourline'), korvex: await stack.createTenant('korvex') }
  await stack.nameTenants(tenants)
  const context = await newContext(browser)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page = await newPage(context, complaints)
  await page.goto(stack.consoleUrl)
  await signInByHand(page, 'Continue with your organization', 'harbourline-admin')
  const notepad = await context.newPage()
  await notepad.route('**/*', async (route) => await route.fulfill({ contentType: 'text/html', body: '<p>Notes' }))
  await notepad.goto('http://localhost/')
  await page.bringToFront()
  let others: Promise<{ readonly context: BrowserContext; readonly page: Page }> | undefined
  const openOthers = async () => {
    const other = await newContext(browser)
    return { context: other, page: await newPage(other, complaints) }
  }
  return {
    stack,
    page,
    context,
    tenants,
    complaints,
    made: new Map<string, MadeKey>(),
    pageOf: async (person) => {
      others ??= openOthers()
      const { context: other, page: shared } = await others
      await other.clearCookies()
      await other.addCookies(await cookiesOf(stack.consoleUrl, person))
      return shared
    },
    openFor: async (person) => {
      const other = await newContext(browser)
      if (person !== undefined) await other.addCookies(await cookiesOf(stack.consoleUrl, person))
      return { context: other, page: await newPage(other, complaints) }
    },
    paste: async () => {
      await notepad.bringToFront()
      const text = await notepad.evaluate(async () => await navigator.clipboard.readText())
      await page.bringToFront()
      return text
    },
    letSessionsLie: async (ms) => {
      const redis = new Redis(stack.redis.url)
      for (const key of await redis.keys('postern:console:session:*')) await redis.hset(key, 'seen', Date.now() - ms)
      redis.disconnect()
    },
    close: async () => {
      await browser.close()
      await stack.stop()
    },
  }
}

async function newContext(browser: Browser): Promise<BrowserContext> {
  // The processor draws every pixel, so the viewport is only as large as the wide layout needs.
  return await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 640 } })
}

/** Returns the cookies of a newly signed-in person, with a few requests and no page. */
async function cookiesOf(url: string, person: string) {
  const { cookies, signIn } = createTestBrowser()
  await signIn(url, person)
  const { host } = new URL(url)
  return [...cookies].flatMap(([name, value]) =>
    name.startsWith(`${host} `) ? [{ name: name.slice(host.length + 1), value, url }] : [],
  )
}

/** Returns the status of a request with a key at one gateway. */
export async function statusOf({ stack }: World, key: string, gateway: number): Promise<number> {
  return (await send(stack.gateways[gateway] ?? '', '/api/v1/whoami', { key })).status
}

/** Opens another page by its link, like a person. */
export async function open(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click()
  await page.getByRole('heading', { level: 1, name }).waitFor()
}

/** Opens the form of a new key and fills in the required fields. */
export async function fillForm(page: Page, label: string): Promise<void> {
  await page.getByRole('button', { name: 'Generate key' }).first().click()
  await page.getByRole('textbox', { name: 'Label', exact: true }).fill(label)
  await page.getByText('Read findings, recommendations').click()
}

export async function submit(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Generate', exact: true }).click()
}

/** Copies the key like a person and returns the clipboard. */
export async function copyKey({ page, paste }: World): Promise<string> {
  await page.getByRole('button', { name: 'Copy key' }).click()
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  return await paste()
}

/** Closes the dialog of a new key, including its question. */
export async function closeReveal(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: /^(?:Yes, close|Close without it)$/ }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

/** Creates a key in the console unless one has this label. */
export async function keyOf(world: World, label: string, period?: string): Promise<MadeKey> {
  const { page, made } = world
  const before = made.get(label)
  if (before !== undefined) return before
  await fillForm(page, label)
  if (period !== undefined) await page.getByRole('radio', { name: period }).press('Space')
  await submit(page)
  const command = (await page.getByLabel('A program that uses the key').textContent()) ?? ''
  const key = { value: await copyKey(world), command }
  await closeReveal(page)
  made.set(label, key)
  return key
}

/** Chooses an option of a list. */
export async function pick(page: Page, label: RegExp, option: string): Promise<void> {
  await page.getByRole('button', { name: label }).click()
  await page.getByRole('option', { name: option }).click()
}

/** Chooses an action from the menu of a key in the list. */
export async function choose(page: Page, label: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${label}` }).click()
  await page.getByRole('menuitem', { name: action }).click()
}

const screenshots = process.env['POSTERN_SCREENSHOTS']

/** Takes a screenshot for later inspection. */
export async function show(page: Page, name: string): Promise<void> {
  if (screenshots !== undefined) await page.screenshot({ path: `${screenshots}/${name}.png` })
}

/** Lets a request be executed and drops its response. */
export async function loseAnswer(route: Route): Promise<void> {
  await route.fetch()
  await route.fulfill(noAnswer)
}

export const noAnswer = {
  status: 504,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: '/problems/gateway-timeout',
    title: 'No answer in time',
    status: 504,
    code: 'gateway_timeout',
    instance: 'test',
  }),
}
