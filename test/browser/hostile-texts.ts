/// <reference lib="dom" />
import { connectorSchema, pushResultSchema } from '@postern/contracts'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import type { World } from './world.ts'

/** Texts that would run as markup or as a URL, and how each is triggered. */
const payloads: Readonly<Record<string, { readonly text: string; readonly markup?: string; readonly click?: true }>> = {
  'an image that is not there': { text: `<img src=x onerror="document.title='owned'">` },
  'an attribute that ends early': { text: `"><svg onload="document.title='owned'">` },
  'a script': { text: `</script><script>document.title='owned'</script>` },
  'a frame': { text: `<iframe srcdoc="<script>parent.document.title='owned'</script>"></iframe>` },
  'a link': { text: `<a href="javascript:void(document.title='owned')">owned</a>`, click: true },
  'an address': {
    text: `javascript:void(document.title='owned')`,
    markup: `<a href="javascript:void(document.title='owned')">owned</a>`,
    click: true,
  },
}
const texts = Object.values(payloads).map(({ text }) => text)

/** Ids, times, numbers, enum values, entity tags and paths, which the pages need unchanged. */
const isStructure = (text: string): boolean =>
  /^(?:[\da-f]{8}-[\da-f-]{27}|[\d:.TZ+-]*|[a-z\d_:*.-]*|"[^"]*"|\/[\w/.-]*)$/.test(text)
const structural = new Set(['csrf_token', 'time_zone', 'cron', 'type', 'instance'])

/** Replaces every free text in an API response with a hostile one. */
function poison(value: unknown, count = { at: 0 }): unknown {
  if (typeof value === 'string') return isStructure(value) ? value : texts[(count.at += 1) % texts.length]
  if (Array.isArray(value)) return value.map((each) => poison(each, count))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, structural.has(name) ? each : poison(each, count)]),
  )
}

const somebody = {
  id: 'ada.lund',
  name: 'Ada Lund',
  roles: ['admin'],
  first_seen_at: '2026-11-22T08:00:00.000Z',
  last_seen_at: '2026-11-22T08:00:00.000Z',
}

async function poisonAnswers(page: Page): Promise<{ readonly poisoned: Set<string> }> {
  const poisoned = new Set<string>()
  await page.route(/\/(?:api\/v1|auth\/session)/, async (route) => {
    const response = await route.fetch()
    const given: unknown = await response.json().catch(() => undefined)
    if (given === undefined) return await route.fulfill({ response })
    // Sign-ins are reported seconds later, so another person is already there.
    const isOfPeople = Array.isArray(given) && new URL(route.request().url()).pathname === '/api/v1/members'
    const json: unknown = isOfPeople ? [...given, somebody] : given
    const changed = poison(json)
    if (JSON.stringify(changed) !== JSON.stringify(json)) {
      poisoned.add(new URL(route.request().url()).pathname.replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, ':id'))
    }
    await route.fulfill({ response, json: changed })
  })
  return { poisoned }
}

/** Runs in a page: returns texts that became markup. */
const becameMarkup = (): readonly string[] => {
  const found = document.querySelectorAll(
    'img[src="x"], iframe, [onload], [onerror], a[href^="javascript:" i], main script, [srcdoc]',
  )
  return [...found].map(({ outerHTML }) => outerHTML)
}

/** Returns what hostile texts did in a page, and how many of them are visible. */
async function readPage(page: Page) {
  const seen = await page.evaluate((all) => {
    const values = [...document.querySelectorAll('input, textarea')].map((field) => Reflect.get(field, 'value'))
    const text = `${document.body.innerText} ${values.join(' ')}`
    return all.filter((each) => text.includes(each)).length
  }, texts)
  return { title: await page.title(), markup: await page.evaluate(becameMarkup), seen }
}

/** Tests that no text from the API runs in the console (XSS). */
export function hostileTextTests(world: () => World): void {
  describe('a hostile text', () => {
    test('is shown as text in every place of the console that shows what somebody has written', async () => {
      const { stack, tenants } = world()
      const { id } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync'], label: texts[0] ?? '' })
      const { key } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync', 'write:evidence'] })
      const gateway = stack.gateways[0] ?? ''
      const ask = async (path: string, body: unknown, headers = {}) =>
        await send(gateway, path, { key, method: 'POST', body, headers })
      const settings = { key: 'hostile', name: texts[1], type: 'csv', dataset: 'people' }
      const connector = connectorSchema.parse((await ask('/api/v1/connectors', settings)).json)
      const pushed = await ask('/api/v1/sync/entities', [{ external_id: 'X', name: texts[2], type: 'process' }])
      const { run_id: run } = pushResultSchema.parse(pushed.json)
      const { context, page } = await world().openFor('harbourline-admin')
      const dialogs: string[] = []
      page.on('dialog', (dialog) => {
        dialogs.push(dialog.message())
        void dialog.dismiss()
      })
      const { poisoned } = await poisonAnswers(page)
      const paths = [
        '/settings/api-keys',
        `/settings/api-keys/${id}`,
        '/settings/policy',
        '/settings/people',
        '/connectors',
        `/connectors/${connector.id}`,
        `/connectors/${connector.id}/change`,
        `/connectors/runs/${run}`,
      ]
      for (const path of paths) {
        await page.goto(`${stack.consoleUrl}${path}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.locator('[aria-busy]').first().waitFor({ state: 'detached' })
        const { title, markup, seen } = await readPage(page)
        expect([path, title === 'owned', markup]).toEqual([path, false, []])
        expect(seen, path).toBeGreaterThan(0)
      }
      // Also texts from files and from rejections.
      await page.goto(`${stack.consoleUrl}/verify`)
      const receipt = await ask(`/api/v1/evidence?file_name=seen.txt`, 'seen', { 'content-type': 'text/plain' })
      const spoiled = Buffer.from(JSON.stringify(poison(receipt.json)))
      const file = { name: `${texts[0]}.json`, mimeType: 'application/json', buffer: spoiled }
      await page.getByLabel('File to verify').setInputFiles(file)
      await page.getByText('onerror').first().waitFor()
      expect((await readPage(page)).markup).toEqual([])
      await page.route('**/api/v1/api-keys*', async (route) => {
        const problem = { title: texts[0], status: 422, code: 'invalid_content', detail: texts[1], type: 'about:blank' }
        await route.fulfill({ status: 422, contentType: 'application/problem+json', body: JSON.stringify(problem) })
      })
      await page.goto(`${stack.consoleUrl}/settings/api-keys`)
      await page.getByRole('alert').getByText('onload').first().waitFor()
      expect((await readPage(page)).markup).toEqual([])
      await page.close()
      await context.close()
      expect(dialogs).toEqual([])
      expect([...poisoned].toSorted()).toEqual(
        expect.arrayContaining([
          '/api/v1/api-keys',
          '/api/v1/api-keys/:id',
          '/api/v1/api-keys/:id/events',
          '/api/v1/connectors',
          '/api/v1/members',
          '/api/v1/sync-runs/:id',
          '/auth/session',
        ]),
      )
    })

    test.each(Object.entries(payloads))('control: %s does run where nothing prevents it', async (_what, one) => {
      const { context, page } = await world().openFor()
      await page.route('**/*', async (route) => {
        const isPage = new URL(route.request().url()).pathname === '/careless'
        const body = `<!doctype html><title>safe</title><main>${one.markup ?? one.text}</main>`
        await (isPage ? route.fulfill({ contentType: 'text/html', body }) : route.abort())
      })
      await page.goto('http://localhost/careless', { waitUntil: 'domcontentloaded' })
      // Control: the check detects this.
      if (!one.text.includes('</script>')) expect(await page.evaluate(becameMarkup)).not.toEqual([])
      if (one.click) await page.getByRole('link', { name: 'owned' }).click()
      await page.waitForFunction(() => document.title === 'owned')
      expect(await page.title()).toBe('owned')
      await page.close()
      await context.close()
    })
  })
}
