// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { apiKeySchema } from '@postern/contracts'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { accessibilityFaults } from '../support/browser.ts'
import { type World, closeReveal, fillForm, submit } from './world.ts'

const screenshots = process.env['POSTERN_SCREENSHOTS']

/** Takes a screenshot for later inspection. */
async function show(page: Page, name: string): Promise<void> {
  if (screenshots !== undefined) await page.screenshot({ path: `${screenshots}/${name}.png` })
}

async function openKeys(world: World) {
  const { context, page } = await world.openFor('harbourline-admin')
  await page.goto(`${world.stack.consoleUrl}/settings/api-keys`)
  await page.getByRole('table', { name: 'API keys' }).waitFor()
  return { context, page }
}

/** Returns the kind and name of the focused element. */
async function focused(page: Page): Promise<string> {
  return await page.evaluate(() => {
    const element = document.activeElement
    return `${element?.tagName.toLowerCase()} ${element?.getAttribute('aria-label') ?? element?.textContent}`
  })
}

const isInView = (element: Element): boolean => {
  const { left, top, width, height } = element.getBoundingClientRect()
  const seen = document.elementFromPoint(left + width / 2, top + height / 2)
  return seen !== null && element.contains(seen)
}

async function keysCalled(page: Page, label: string): Promise<number> {
  const keys = z
    .array(apiKeySchema)
    .parse(await page.evaluate(async () => await (await fetch('/api/v1/api-keys?limit=1000')).json()))
  return keys.filter((key) => key.label === label).length
}

/** Tests of overdue responses, and of the focus afterwards. */
export function dialogTests(world: () => World): void {
  describe('a change whose answer does not come', () => {
    test('says within ten seconds that a key may have been made, and makes no second one when it is sent again', async () => {
      const { context, page } = await openKeys(world())
      await page.clock.install()
      const reached = Promise.withResolvers<void>()
      await page.route(
        (url) => url.pathname === '/api/v1/api-keys',
        async (route) => {
          if (route.request().method() !== 'POST') return await route.fallback()
          // The key is created, but the response never reaches the browser.
          await route.fetch()
          reached.resolve()
        },
        { times: 1 },
      )
      await fillForm(page, 'Never answered')
      await submit(page)
      await reached.promise
      expect(await page.getByText('Postern has not answered yet').count()).toBe(0)
      await page.clock.fastForward(10_000)
      const told = page.getByRole('status').filter({ hasText: 'Postern has not answered yet' })
      await told.getByText('A key may already have been created.').waitFor()
      await told.getByText('You can try again without creating a second key.').waitFor()
      await expect.poll(async () => await told.evaluate(isInView)).toBe(true)
      expect(await accessibilityFaults(page), 'an overdue answer').toEqual([])
      await show(page, 'overdue')
      await told.getByRole('button', { name: 'Stop waiting' }).click()
      await page.getByRole('alert').filter({ hasText: 'It is not known whether a key was generated' }).waitFor()
      await show(page, 'stopped')
      // Also after closing and reopening the dialog.
      await page.getByRole('button', { name: 'Cancel' }).click()
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      await page.getByRole('link', { name: 'Never answered' }).waitFor()
      await fillForm(page, 'Never answered')
      await submit(page)
      await page.getByText('The key was created, but its value is lost').waitFor()
      expect(await keysCalled(page, 'Never answered')).toBe(1)
      await context.close()
    })

    test('gets a page instead of what it reads', async () => {
      const { context, page } = await world().openFor('harbourline-admin')
      await page.clock.install()
      const asked = Promise.withResolvers<void>()
      await page.route('**/api/v1/api-keys?*', () => asked.resolve())
      await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
      await asked.promise
      await page.clock.fastForward(10_000)
      await page.getByText('Postern has not answered yet').waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      await show(page, 'overdue-page')
      await context.close()
    })
  })

  describe('the keyboard', () => {
    test('is where it was when a dialog about keys closes, or at the title where that is gone', async () => {
      const { context, page } = await openKeys(world())
      const generate = page.getByRole('button', { name: 'Generate key' }).first()
      await generate.click()
      await page.getByRole('dialog').waitFor()
      await page.keyboard.press('Escape')
      await expect.poll(async () => await focused(page)).toBe('button Generate key')

      await fillForm(page, 'Focused')
      await submit(page)
      await page.getByText('This key is shown only once').waitFor()
      await page.getByRole('button', { name: 'Done' }).click()
      await page.getByRole('button', { name: 'Back to the key' }).click()
      await page.getByRole('alertdialog').waitFor({ state: 'detached' })
      await expect.poll(async () => await focused(page)).toBe('button Done')
      await closeReveal(page)
      await expect.poll(async () => await focused(page)).toBe('button Generate key')

      const actions = 'Actions for Focused'
      for (const [action, keep] of [
        ['Rotate…', 'Cancel'],
        ['Revoke…', 'Keep the key'],
      ] as const) {
        await page.getByRole('button', { name: actions }).click()
        await page.getByRole('menuitem', { name: action }).click()
        await page.getByRole('button', { name: keep }).click()
        await page.getByRole('dialog').or(page.getByRole('alertdialog')).waitFor({ state: 'detached' })
        await expect.poll(async () => await focused(page)).toBe(`button ${actions}`)
      }

      await page.getByRole('link', { name: 'Focused' }).click()
      await page.getByRole('button', { name: 'Rotate' }).click()
      await page.getByRole('button', { name: 'Generate new key' }).click()
      await page.getByText('This key is shown only once').waitFor()
      await closeReveal(page)
      await expect.poll(async () => await focused(page)).toBe('h1 Focused')
      await page.getByRole('button', { name: 'Revoke' }).click()
      // The page reads the revoked key after the dialog has closed. Until then, its button "Revoke" stays.
      const closed = Promise.withResolvers<void>()
      await page.route(`**/api/v1/api-keys/${page.url().split('/').at(-1)}`, async (route) => {
        await closed.promise
        await route.continue()
      })
      await page.getByRole('button', { name: 'Revoke key' }).click()
      await page.getByText(/Enforced on all gateways/).waitFor()
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click()
      await expect.poll(async () => await focused(page)).toBe('button Revoke')
      closed.resolve()
      await expect.poll(async () => await focused(page)).toBe('h1 Focused')
      await context.close()
    })

    test('is where it was when a dialog about the policy or a connector closes, or at the title of the next page', async () => {
      const { context, page } = await world().openFor('harbourline-admin')
      await page.goto(`${world().stack.consoleUrl}/settings/policy`)
      await page.getByRole('button', { name: 'Change' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
      await expect.poll(async () => await focused(page)).toBe('button Change')

      const { stack, tenants } = world()
      const { key } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync'] })
      const made = await fetch(`${stack.gateways[0]}/api/v1/connectors`, {
        method: 'POST',
        headers: { authorization: `ApiKey ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          key: 'focused',
          name: 'Focused source',
          type: 'csv',
          dataset: 'auditable_entities',
          mapping: [
            { target: 'external_id', source: 'Code' },
            { target: 'name', source: 'Code' },
            { target: 'type', constant: 'process' },
          ],
        }),
      })
      const { id } = z.object({ id: z.string() }).parse(await made.json())
      await page.goto(`${stack.consoleUrl}/connectors/${id}`)
      await page.getByRole('button', { name: 'Run…' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
      await expect.poll(async () => await focused(page)).toBe('button Run…')
      for (const answer of ['Keep it', 'Retire']) {
        await page.getByRole('button', { name: 'More actions' }).click()
        await page.getByRole('menuitem', { name: 'Retire…' }).click()
        await page.getByRole('alertdialog').getByRole('button', { name: answer, exact: true }).click()
        await page.getByRole('alertdialog').waitFor({ state: 'detached' })
        const place = answer === 'Retire' ? 'h1 Connectors' : 'button More actions'
        await expect.poll(async () => await focused(page)).toBe(place)
      }
      await context.close()
    })
  })

  describe('the list of keys', () => {
    test('keeps its search and filters in the address, on Back, and by the link of a key’s page', async () => {
      const { context, page } = await openKeys(world())
      const search = page.getByRole('searchbox')
      await search.fill('focus')
      await page.getByRole('link', { name: 'Focused' }).first().waitFor()
      const address = page.url()
      expect(new URL(address).search).toContain('focus')
      for (const way of ['Back', 'link', 'reload'] as const) {
        if (way === 'reload') await page.reload()
        else {
          await page.getByRole('link', { name: 'Focused' }).first().click()
          await page.getByRole('heading', { level: 1, name: 'Focused' }).waitFor()
          if (way === 'Back') await page.goBack()
          else await page.getByRole('main').getByRole('link', { name: 'API keys' }).click()
        }
        await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
        await expect.poll(async () => await search.inputValue(), { message: way }).toBe('focus')
        expect(page.url()).toBe(address)
      }
      await context.close()
    })

    test('does not move when somebody begins to search', async () => {
      const { context, page } = await openKeys(world())
      const table = page.getByRole('table', { name: 'API keys' })
      const placeOf = async () => await table.evaluate((element) => element.getBoundingClientRect().top)
      const before = await placeOf()
      await page.getByRole('searchbox').pressSequentially('f')
      await expect.poll(() => new URL(page.url()).search).toContain('f')
      await page.getByRole('link', { name: 'Focused' }).first().waitFor()
      expect(await placeOf()).toBe(before)
      await context.close()
    })

    test('asks for a scope where the scopes are, in view, and Enter on a scope makes no key', async () => {
      const { context, page } = await openKeys(world())
      await page.getByRole('button', { name: 'Generate key' }).first().click()
      await page.getByRole('textbox', { name: 'Label', exact: true }).fill('Without a scope')
      await submit(page)
      const told = page.getByText('Choose at least one scope')
      await told.waitFor()
      await expect.poll(async () => await told.evaluate(isInView)).toBe(true)
      await show(page, 'scope-error')
      await page.getByRole('checkbox', { name: /Read findings/ }).focus()
      await page.keyboard.press('Enter')
      expect(await page.getByRole('checkbox', { name: /Read findings/ }).isChecked()).toBe(true)
      expect(await keysCalled(page, 'Without a scope')).toBe(0)
      await context.close()
    })
  })

  test('the page of a key whose requests were all refused says so, and shows no use', async () => {
    const { stack, tenants } = world()
    const { id, key } = await stack.createKey(tenants.harbourline, { scopes: ['read:universe'], label: 'Refused' })
    const { context, page } = await world().openFor('harbourline-admin')
    const headers = { authorization: `ApiKey ${key}` }
    for (let times = 0; times < 3; times += 1) {
      expect((await fetch(`${stack.gateways[0]}/api/v1/findings`, { headers })).status).toBe(403)
    }
    const fact = async (label: string) =>
      await page.locator('.facts-grid > div').filter({ hasText: label }).locator('dd').textContent()
    // Gateways report every few seconds.
    await expect
      .poll(
        async () => {
          await page.goto(`${stack.consoleUrl}/settings/api-keys/${id}`)
          await page.getByRole('heading', { name: 'Audit trail' }).waitFor()
          return await fact('Last refused')
        },
        { timeout: 60_000, interval: 1_000 },
      )
      .not.toBe('Never')
    expect(await fact('Last used')).toBe('Never')
    await page.getByText('0 accepted', { exact: true }).waitFor()
    await show(page, 'refused-key')
    await page.getByRole('main').getByRole('link', { name: 'API keys' }).click()
    const row = page.getByRole('row').filter({ hasText: 'Refused' })
    await row
      .locator('.cell-used')
      .getByText(/^refused/)
      .first()
      .waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    await show(page, 'refused-list')
    await context.close()
  })

  test('a forged log gets no green tick beside its verdict', async () => {
    const { context, page } = await world().openFor('harbourline-admin')
    await page.goto(`${world().stack.consoleUrl}/verify`)
    const forged = { position: 1, finding_id: 'a', seq: 1, prev_hash: null, text: 'forged', hash: '0'.repeat(64) }
    await page.getByRole('textbox', { name: 'Or paste it' }).fill(JSON.stringify(forged))
    await page.getByRole('button', { name: 'Verify' }).click()
    const verdict = page.locator('.verdict')
    await verdict.getByText('Do not rely on this').waitFor()
    await verdict.getByText('Changed: position 1').waitFor()
    expect(await verdict.locator('.check-true').count()).toBe(0)
    expect(await accessibilityFaults(page)).toEqual([])
    await show(page, 'forged')
    await context.close()
  })
}
