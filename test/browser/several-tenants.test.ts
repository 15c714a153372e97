// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startBrowser } from '../support/browser.ts'

let stack: TestStack
let browser: Browser
beforeAll(async () => {
  ;[stack, browser] = await Promise.all([startTestStack({ console: true }), startBrowser()])
  const tenants = { harbourline: await stack.createTenant('harbourline'), korvex: await stack.createTenant('korvex') }
  await stack.nameTenants(tenants)
})
afterAll(async () => {
  await browser.close()
  await stack.stop()
})

test('a person with two tenants chooses one, and switches to the other in a new session', async () => {
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 640 } })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load')) complaints.push(message.text())
  })
  const cookie = async () => (await context.cookies()).find(({ name }) => name.endsWith('postern-session'))?.value
  const sessionTenant = async (): Promise<unknown> =>
    await page.evaluate(async () => {
      const session: unknown = await (await fetch('/auth/session')).json()
      return Object(session).tenant.id
    })
  await page.goto(stack.consoleUrl)
  await page.getByRole('link', { name: 'Continue with your organization' }).click()
  await page.locator('button[value="both-auditor"]').click()
  await page.getByRole('heading', { name: 'Where do you want to work?' }).waitFor()
  await capture('choose')
  const names = await page.locator('button[name="tenant"]').allInnerTexts()
  expect(names).toHaveLength(2)
  const ids = await page
    .locator('button[name="tenant"]')
    .evaluateAll((all) => all.map((each) => each.getAttribute('value')))
  await page.locator('button[name="tenant"]').nth(0).click()
  await page
    .getByRole('button', { name: /Account of/ })
    .first()
    .click()
  await capture('menu')
  expect(await sessionTenant()).toBe(ids[0])
  const before = await cookie()
  await page.getByRole('menuitem', { name: 'Switch organization' }).click()
  await page.getByRole('heading', { name: 'Where do you want to work?' }).waitFor()
  await page.locator('button[name="tenant"]').nth(1).click()
  await page
    .getByRole('button', { name: /Account of/ })
    .first()
    .waitFor()
  await capture('switched')
  expect(await sessionTenant()).toBe(ids[1])
  expect(await cookie()).not.toBe(before)
  expect(complaints).toEqual([])

  async function capture(name: string): Promise<void> {
    const folder = process.env['POSTERN_SCREENSHOTS']
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png` })
  }
})
