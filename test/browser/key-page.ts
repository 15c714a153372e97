import { ageKey } from '@postern/local-stack/testing'
import type { Request } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { accessibilityFaults } from '../support/browser.ts'
import { send } from '../support/http.ts'
import { type World, keyOf, open, show } from './world.ts'

/** Tests of finding one key and of its page, which run behind the tests of making keys. */
export function keyPageTests(world: () => World): void {
  describe('a key', () => {
    test('is found by its whole value, which stays out of the URL, the page and the history', async () => {
      const { page } = world()
      const { value } = await keyOf(world(), 'Leaking')
      const requests: Request[] = []
      const listen = (request: Request) => void requests.push(request)
      page.on('request', listen)
      const search = page.getByRole('searchbox', { name: /paste a whole key/ })
      await search.fill(`  Authorization: ApiKey ${value}`)
      await page.getByRole('heading', { level: 1, name: 'Leaking' }).waitFor()
      await page.goBack()
      await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
      page.off('request', listen)
      expect(await search.inputValue()).toBe('')
      expect(await page.content()).not.toContain(value.slice(8))
      expect(requests.map((request) => request.url()).join(' ')).not.toContain(value.slice(8))
      expect(requests.map((request) => request.method())).toContain('POST')

      await search.fill(`postern_${'0'.repeat(49)}`)
      await page.getByText('The key could not be searched for').waitFor()
      await search.fill('Leaking')
      await page.getByText('The key could not be searched for').waitFor({ state: 'detached' })
      await search.fill('')
    })

    test('has a page that explains whether a request is accepted', async () => {
      const { page } = world()
      await page.getByRole('link', { name: 'Rotating' }).first().click()
      await page.getByRole('heading', { name: 'Would this be accepted?' }).waitFor()
      await page.getByRole('textbox', { name: 'Path' }).fill('/api/v1/entities')
      await page.getByRole('textbox', { name: 'Client address' }).fill('203.0.113.7')
      await page.getByRole('button', { name: 'Explain' }).click()
      await page.getByText('A gateway refuses this request: 403 insufficient_scope.').waitFor()
      await page.getByText('This operation needs the scope read:universe.').waitFor()
      expect(await accessibilityFaults(page), 'the explanation').toEqual([])
      await page.getByRole('textbox', { name: 'Client address' }).fill('nowhere')
      await page.getByRole('button', { name: 'Explain' }).click()
      await page.getByText('The request could not be explained').waitFor()
      await open(page, 'API keys')
    })

    test('has a page that shows where it was used and what was refused, and limits it to those addresses', async () => {
      const { page, stack } = world()
      const { value } = await keyOf(world(), 'Seen')
      const gateway = stack.gateways[0] ?? ''
      expect((await send(gateway, '/api/v1/findings', { key: value })).status).toBe(200)
      expect((await send(gateway, '/api/v1/entities', { key: value })).status).toBe(403)
      await page.getByRole('link', { name: 'Seen', exact: true }).click()
      const refused = page.getByRole('region', { name: 'Refused requests' })
      // Gateways report every ten seconds.
      await expect
        .poll(
          async () => {
            await page.reload()
            await page.getByRole('heading', { name: 'Refused requests' }).waitFor()
            return await refused.innerText()
          },
          { timeout: 60_000, interval: 1_000 },
        )
        .toContain('GET /entities')
      await refused.getByRole('cell', { name: 'The key lacks the scope insufficient_scope' }).waitFor()
      const from = page.getByRole('region', { name: 'Called from' })
      await expect.poll(async () => await from.getByRole('row').last().innerText()).toMatch(/^127\.0\.0\.1\s.*\s1\s+1$/)
      expect(await accessibilityFaults(page), 'the page').toEqual([])
      await show(page, 'key-use')
      await refused.getByRole('button', { name: /^Why was .* refused\?$/ }).click()
      const why = page.getByRole('dialog', { name: 'Why was this refused?' })
      await why.getByText('A gateway refused this request: 403 insufficient_scope.').waitFor()
      await why.getByText('With its current settings, the key would still be refused: insufficient_scope.').waitFor()
      expect(await accessibilityFaults(page), 'the explanation').toEqual([])
      await show(page, 'why')
      await why.getByRole('button', { name: 'Close' }).last().click()
      await page.getByRole('button', { name: 'Limit the key to this address…' }).click()
      expect(await page.getByRole('textbox', { name: 'Allowed addresses' }).inputValue()).toBe('127.0.0.1')
      await page.getByRole('button', { name: 'Save' }).click()
      await from.getByText('Allowed only from 127.0.0.1').waitFor()
      expect(await page.getByRole('button', { name: /^Limit the key/ }).count()).toBe(0)
      await open(page, 'API keys')
    })

    test('with scopes that it does not need is narrowed with one click', async () => {
      const { page, stack } = world()
      const { id } = await stack.createKey(world().tenants.harbourline, {
        label: 'Roomy',
        scopes: ['read:findings', 'read:universe'],
      })
      await page.reload()
      await page.getByRole('link', { name: 'Roomy', exact: true }).click()
      await page.getByText(/^Uses 0 of \d+ routes since/).waitFor()
      await ageKey(stack.database, id, { days: 31, routes: ['findings.list'] })
      await page.reload()
      await page.getByText(/^Uses 1 of \d+ routes$/).waitFor()
      await page.getByText('read:universe was never needed in the last 30 days').waitFor()
      expect(await accessibilityFaults(page), 'the advice').toEqual([])
      await show(page, 'right-size')
      await page.getByRole('button', { name: 'Rotate to a narrower key…' }).click()
      await page.getByRole('dialog').getByText('and only read:findings').waitFor()
      await page.getByRole('button', { name: 'Cancel' }).click()
      await page.getByRole('button', { name: 'Keep only read:findings' }).click()
      await page.getByText('was never needed').waitFor({ state: 'detached' })
      const scopes = await page.evaluate(
        async (path) => (await (await fetch(path)).json()).scopes,
        `/api/v1/api-keys/${id}`,
      )
      expect(scopes).toEqual(['read:findings'])
      await open(page, 'API keys')
    })
  })
}
