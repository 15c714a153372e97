import { apiKeySchema, keyPolicySchema } from '@postern/contracts'
import type { Page, Request } from 'playwright-core'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { accessibilityFaults } from '../support/browser.ts'
import { type World, closeReveal, fillForm, keyOf, noAnswer, submit } from './world.ts'

const dayMs = 86_400_000

/** Tests of when keys expire. They create the keys that later tests find by their labels. */
export function keyExpiryTests(world: () => World): void {
  test('a key is generated for 30 days, 90 days, a year or until a day of one’s own', async () => {
    const { page } = world()
    await keyOf(world(), 'Leaking', '30 days')
    await keyOf(world(), 'Rotating', '90 days')
    await keyOf(world(), scriptLabel, '1 year')
    await fillForm(page, 'For some days')
    await page.getByRole('radio', { name: 'Custom' }).press('Space')
    await page.getByRole('button', { name: 'Advanced' }).click()
    expect(await accessibilityFaults(page), 'the form').toEqual([])
    await page.getByRole('button', { name: /^Calendar/ }).press('Enter')
    await page.getByRole('grid').waitFor()
    expect(await accessibilityFaults(page), 'the calendar').toEqual([])
    await page.keyboard.press('Escape')
    await typeDay(page, new Date(Date.now() + 3 * dayMs))
    await submit(page)
    await page.getByText('This key is shown only once').waitFor()
    expect(await accessibilityFaults(page), 'the key').toEqual([])
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('alertdialog', { name: 'You have not copied the key' }).waitFor()
    expect(await accessibilityFaults(page), 'the question').toEqual([])
    await page.getByRole('button', { name: 'Close without it' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })

    const keys = z
      .array(apiKeySchema)
      .parse(await page.evaluate(async () => await (await fetch('/api/v1/api-keys')).json()))
    const lives = keys.map(({ label, created_at: from, expires_at: to }) => {
      return [label, Math.round((Date.parse(to) - Date.parse(from)) / dayMs)]
    })
    const [custom, ...fixed] = lives
    expect(fixed).toEqual([
      [scriptLabel, 365],
      ['Rotating', 90],
      ['Leaking', 30],
    ])
    expect(custom?.[0]).toBe('For some days')
    expect([3, 4]).toContain(custom?.[1])
  })

  test('a key is not created with an expiry in the past or too far ahead, and the possible days are shown', async () => {
    const { page } = world()
    const days = await longestLife(page)
    const changes: string[] = []
    const note = (request: Request) => {
      if (request.method() !== 'GET') changes.push(request.url())
    }
    page.on('request', note)
    await fillForm(page, 'No such day')
    await page.getByRole('radio', { name: 'Custom' }).press('Space')
    const told = page.getByText(/^Choose a day from .+ to .+$/)
    // Two days away, in case a day ends during the test.
    for (const away of [-2, days + 1]) {
      await typeDay(page, dayFrom(Date.now(), away))
      expect(await told.count()).toBe(0)
      await submit(page)
      await told.waitFor()
      await page.getByRole('spinbutton', { name: 'month, ' }).and(page.locator(':focus')).waitFor()
    }
    expect(await accessibilityFaults(page), 'a day that is refused').toEqual([])
    expect(changes).toEqual([])
    // A possible day has no error.
    await typeDay(page, dayFrom(Date.now(), 2))
    await submit(page)
    await page.getByText('This key is shown only once').waitFor()
    expect(changes).toHaveLength(1)
    page.off('request', note)
    await closeReveal(page)
  })

  test('a key with an expiry of one’s own is requested identically when it is sent again, however late', async () => {
    const { context, page } = await world().openFor('harbourline-admin')
    const sent: string[] = []
    await page.route('**/api/v1/api-keys', async (route) => {
      sent.push(`${route.request().headers()['idempotency-key']} ${route.request().postData()}`)
      await route.fulfill(noAnswer)
    })
    await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
    const days = await longestLife(page)
    // In the first minute of a day, the last possible day ends after the maximum lifetime, and so would the key.
    const midnight = new Date().setHours(0, 0, 0, 0)
    await page.clock.setFixedTime(midnight + 10_000)
    await fillForm(page, 'Sent twice')
    await page.getByRole('radio', { name: 'Custom' }).press('Space')
    await typeDay(page, dayFrom(midnight, days - 1))
    await submit(page)
    await page.getByText('Try again: nothing is done twice.').waitFor()
    await page.clock.setFixedTime(midnight + 20_000)
    await submit(page)
    await expect.poll(() => sent.length).toBe(2)
    expect(sent[0]).toContain('"expires_at":')
    expect(sent[1]).toBe(sent[0])
    await context.close()
  })

  test.each([
    ['in the list', 'expired'],
    ['in the list', 'active'],
    ['at its page', 'expired'],
    ['at its page', 'active'],
  ] as const)(
    'a key that expires while it is visible %s is read again, once, and is %s as the answer says',
    async (place, state) => {
      const { stack, tenants } = world()
      const label = `Ends ${place}, ${state}`
      const { id } = await stack.createKey(tenants.harbourline, { scopes: ['read:findings'], label })
      const { context, page } = await world().openFor('harbourline-admin')
      const start = Date.now()
      const end = new Date(start + 60_000).toISOString()
      let reads = 0
      const path = place === 'in the list' ? '/api/v1/api-keys?limit=1000' : `/api/v1/api-keys/${id}`
      await page.route(
        ({ pathname, search }) => pathname + search === path,
        async (route) => {
          reads += 1
          const told = { state: reads === 1 ? ('active' as const) : state, expires_at: end }
          const response = await route.fetch()
          const body = z.union([z.array(apiKeySchema), apiKeySchema]).parse(await response.json())
          const json = Array.isArray(body)
            ? body.map((key) => (key.id === id ? { ...key, ...told } : key))
            : { ...body, ...told }
          await route.fulfill({ response, json })
        },
      )
      await page.clock.install({ time: start })
      await page.goto(`${stack.consoleUrl}/settings/api-keys${place === 'in the list' ? '' : `/${id}`}`)
      const shown =
        place === 'in the list' ? page.getByRole('row').filter({ hasText: label }) : page.locator('.key-lead')
      await shown.getByText('Active', { exact: true }).waitFor()
      expect(reads).toBe(1)
      await page.clock.fastForward(120_000)
      await expect.poll(() => reads).toBe(2)
      await shown.getByText(state === 'active' ? 'Active' : 'Expired', { exact: true }).waitFor()
      for (let times = 0; times < 2; times += 1) {
        await page.clock.fastForward(60_000)
        await page.evaluate(
          async () => await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
        )
      }
      expect(reads).toBe(2)
      await context.close()
    },
  )
}

export const scriptLabel = `<img src=x onerror="document.title='owned'"> <script>alert(1)</script>`

/** Types the last day of a key into its field. */
async function typeDay(page: Page, day: Date): Promise<void> {
  const parts = [day.getMonth() + 1, day.getDate(), day.getFullYear()]
  for (const [index, name] of ['month, ', 'day, ', 'year, '].entries()) {
    await page.getByRole('spinbutton', { name }).pressSequentially(String(parts[index]))
  }
}

/** By calendar days, which can have 23 or 25 hours. */
function dayFrom(time: number, days: number): Date {
  const day = new Date(time)
  day.setDate(day.getDate() + days)
  return day
}

/** Returns the maximum lifetime of the tenant's keys, in days. */
async function longestLife(page: Page): Promise<number> {
  return keyPolicySchema.parse(await page.evaluate(async () => await (await fetch('/api/v1/key-policy')).json()))
    .max_key_days
}
