// What is evaluated in a page is written here and runs there.
/// <reference lib="dom" />
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { type World, choose, fillForm, open, submit } from './world.ts'

const unavailable = {
  status: 503,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: '/problems/service-unavailable',
    title: 'Service unavailable',
    status: 503,
    code: 'service_unavailable',
    instance: 'test',
  }),
}

const shownKey = (page: Page) => page.getByText(/^postern_[0-9A-Za-z]{49}$/)
const closeWithoutIt = async (page: Page) => {
  await page.getByRole('button', { name: 'Close without it' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}
const make = async (page: Page, label: string) => {
  await fillForm(page, label)
  await submit(page)
  await shownKey(page).waitFor()
  await page.getByRole('button', { name: 'Done' }).click()
  await closeWithoutIt(page)
}

/** What stands in the way of a key that is shown once, and of a revocation. */
export function heldKeyTests(world: () => World): void {
  const openKeys = async (person = 'harbourline-admin') => {
    const other = await world().openFor(person)
    // There is a way back, to a page of the console.
    await other.page.goto(`${world().stack.consoleUrl}/connectors`)
    await open(other.page, 'API keys')
    return other
  }
  describe('a key that is on the screen and nowhere else', () => {
    test('stays there when the page behind it cannot be read again', async () => {
      const { context, page } = await openKeys()
      await make(page, 'Page that fails')
      await page.getByRole('link', { name: 'Page that fails' }).click()
      await page.getByRole('button', { name: 'Rotate' }).first().click()
      const again = page.waitForResponse((answer) => answer.status() === 503)
      await page.route(/\/api\/v1\/api-keys\/[0-9a-f-]{36}$/, async (route) => await route.fulfill(unavailable))
      await page.getByRole('button', { name: 'Generate new key' }).click()
      await again
      await page.getByText('The key cannot be shown').waitFor()
      expect(await shownKey(page).isVisible()).toBe(true)
      await page.getByRole('button', { name: 'Done' }).click()
      await closeWithoutIt(page)
      await context.close()
    })

    test('is not left behind by the way back of the browser without a question', async () => {
      const { context, page } = await openKeys()
      await fillForm(page, 'Way back')
      await submit(page)
      await shownKey(page).waitFor()
      await page.goBack()
      const question = page.getByRole('alertdialog', { name: 'You have not copied the key' })
      await question.waitFor()
      expect(new URL(page.url()).pathname).toBe('/settings/api-keys')
      await page.getByRole('button', { name: 'Back to the key' }).click()
      await shownKey(page).waitFor()
      await page.getByRole('button', { name: 'Done' }).click()
      await closeWithoutIt(page)
      // From then on it leads back as ever.
      await page.goBack()
      await page.getByRole('heading', { level: 1, name: 'Connectors' }).waitFor()
      await context.close()
    })

    test.each(['Generate', 'Rotate'])('is waited for, whatever is pressed after %s', async (verb) => {
      const { context, page } = await openKeys()
      const label = `Impatient ${verb}`
      if (verb === 'Rotate') await make(page, label)
      const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
      await page.route(/\/api\/v1\/api-keys(?:\/[0-9a-f-]{36}\/rotate)?$/, async (route) => {
        if (route.request().method() === 'POST') await held
        await route.continue()
      })
      if (verb === 'Rotate') {
        await choose(page, label, 'Rotate…')
        await page.getByRole('button', { name: 'Generate new key' }).click()
      } else {
        await fillForm(page, label)
        await submit(page)
      }
      expect(await page.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true)
      await page.keyboard.press('Escape')
      await page.mouse.click(5, 5)
      await page.goBack()
      letGo()
      await shownKey(page).waitFor()
      await page.getByRole('button', { name: 'Done' }).click()
      await closeWithoutIt(page)
      await context.close()
    })
  })

  test('a list of keys that was asked for before a revocation takes nothing of it back', async () => {
    const { context, page } = await openKeys()
    await make(page, 'Slow list')
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    await page.route(/\/api\/v1\/api-keys\?limit=1000$/, async (route) => {
      const answer = await route.fetch()
      await held
      await route.fulfill({ response: answer })
    })
    const isLate = page.waitForResponse(/\/api\/v1\/api-keys\?limit=1000$/)
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
    const row = page.getByRole('row').filter({ hasText: 'Slow list' })
    await row.getByText('Active', { exact: true }).waitFor()
    await choose(page, 'Slow list', 'Revoke…')
    await page.getByRole('button', { name: 'Revoke key' }).click()
    await page.getByText(/Enforced on all gateways/).waitFor()
    await page.getByRole('button', { name: 'Close' }).last().click()
    await row.getByText('Revoked', { exact: true }).waitFor()
    letGo()
    await (await isLate).finished()
    await page.evaluate(
      async () => await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
    )
    expect(await row.locator('.badge').allTextContents()).toEqual(['Revoked'])
    await context.close()
  })

  describe('who signs in anew in another tab', () => {
    test('goes on in this one', async () => {
      const [{ context, page }, again] = [await openKeys(), await openKeys()]
      await make(page, 'Two tabs')
      await context.addCookies(await again.context.cookies())
      await choose(page, 'Two tabs', 'Revoke…')
      await page.getByRole('button', { name: 'Revoke key' }).click()
      await page.getByText(/Enforced on all gateways/).waitFor()
      expect(await page.getByText('Key revoked').isVisible()).toBe(true)
      await Promise.all([context.close(), again.context.close()])
    })

    test('as somebody else sees nothing of the one under the name of the other', async () => {
      const [{ context, page }, other] = [await openKeys(), await openKeys('korvex-admin')]
      await make(page, 'Of Harbourline')
      await context.addCookies(await other.context.cookies())
      await choose(page, 'Of Harbourline', 'Revoke…')
      const loaded = page.waitForEvent('load')
      await page.getByRole('button', { name: 'Revoke key' }).click()
      await loaded
      await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
      await page.getByText('No keys yet').waitFor()
      expect(await page.getByText('Of Harbourline').count()).toBe(0)
      await Promise.all([context.close(), other.context.close()])
    })
  })
}
