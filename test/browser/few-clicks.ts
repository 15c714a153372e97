// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { createdApiKeySchema } from '@postern/contracts'
import { ageKey, operator } from '@postern/local-stack/testing'
import { connect } from '@postern/tenant-db'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import type { World } from './world.ts'

const screenshots = process.env['POSTERN_SCREENSHOTS']

interface Task {
  readonly title: string
  readonly mostClicks: number
  /** Creates keys, and returns what the person knows. */
  prepare(world: World): Promise<string>
  /** Starts on the list of keys, and ends when the answer is visible. */
  carryOut(page: Page, known: string): Promise<void>
}

async function createKey({ stack, tenants }: World, given: object) {
  const body = { expires_in: '30d', scopes: ['read:findings'], ...given }
  const caller = { ...operator, tenantId: tenants.korvex.id }
  return createdApiKeySchema.parse((await stack.operator.call(caller, 'POST', '/api/v1/api-keys', { body })).json)
}

/** As gateways and a directory report it. */
async function setMember(
  { stack, tenants }: World,
  { id, name, hasLeft }: { readonly id: string; readonly name: string; readonly hasLeft: boolean },
): Promise<void> {
  await using connection = await connect(stack.database.url('superuser'))
  await connection.client.query(
    `insert into keys.member (tenant_id, id, name, roles, first_seen_at, last_seen_at)
     values ($1, $2, $3, '{viewer}', now(), now())
         on conflict (tenant_id, id) do update set left_at = case when $4 then now() end`,
    [tenants.korvex.id, id, name, hasLeft],
  )
}

async function findByTyping(page: Page, text: string): Promise<void> {
  const search = page.getByRole('searchbox', { name: /paste a whole key/ })
  await search.click()
  await page.keyboard.insertText(text)
}

/** A key with an accepted and a refused request, which gateways have reported. */
async function refusedKey(world: World, label: string): Promise<string> {
  const { id, key } = await createKey(world, { label })
  const [gateway = ''] = world.stack.gateways
  expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
  expect((await send(gateway, '/api/v1/entities', { key })).status).toBe(403)
  const caller = { ...operator, tenantId: world.tenants.korvex.id }
  const usage = async () => (await world.stack.operator.call(caller, 'GET', `/api/v1/api-keys/${id}/usage`)).text
  await expect.poll(usage, { timeout: 60_000 }).toContain('insufficient_scope')
  return label
}

const tasks: readonly Task[] = [
  {
    title: 'keys that were never used are found',
    mostClicks: 2,
    prepare: async (world) => {
      const { id, label } = await createKey(world, { label: 'Forgotten export' })
      await ageKey(world.stack.database, id, { days: 2 })
      return label
    },
    carryOut: async (page, label) => {
      await page.getByRole('link', { name: 'Key health' }).click()
      await page.getByRole('button', { name: /Never used/ }).click()
      await page.getByRole('link', { name: label }).waitFor()
    },
  },
  {
    title: 'all keys of a person who left are revoked',
    mostClicks: 6,
    prepare: async (world) => {
      const owner = { type: 'person', id: 'kofi.mensah' }
      await setMember(world, { id: owner.id, name: 'Kofi Mensah', hasLeft: false })
      for (const label of ['Kofi one', 'Kofi two', 'Kofi three']) await createKey(world, { label, owner })
      await setMember(world, { id: owner.id, name: 'Kofi Mensah', hasLeft: true })
      return 'Kofi Mensah'
    },
    carryOut: async (page, name) => {
      await findByTyping(page, name)
      await page.getByText('Select all 3 shown').click()
      await page.getByRole('button', { name: 'Change 3 selected…' }).click()
      await page.getByRole('button', { name: 'Revoke 3 keys' }).click()
      await page.getByText('3 keys changed').waitFor()
    },
  },
  {
    title: 'a leaked key is revoked by its whole value',
    mostClicks: 4,
    prepare: async (world) => (await createKey(world, { label: 'Leaked in a ticket' })).key,
    carryOut: async (page, value) => {
      await findByTyping(page, value)
      await page.getByRole('heading', { level: 1, name: 'Leaked in a ticket' }).waitFor()
      await page.getByRole('button', { name: 'Revoke' }).click()
      await page
        .getByRole('alertdialog')
        .getByRole('button', { name: /^Revoke/ })
        .click()
      await page.getByText('Revoked', { exact: true }).first().waitFor()
    },
  },
  {
    title: 'the reason of a 403 is shown',
    mostClicks: 3,
    prepare: async (world) => await refusedKey(world, 'Client with 403'),
    carryOut: async (page, label) => {
      await page.getByRole('link', { name: label }).click()
      await page.getByRole('button', { name: /^Why was .* refused\?$/ }).click()
      await page.getByText('A gateway refused this request: 403 insufficient_scope.').waitFor()
    },
  },
  {
    title: 'the addresses and refusals of a key are shown',
    mostClicks: 2,
    prepare: async (world) => await refusedKey(world, 'Client of last week'),
    carryOut: async (page, label) => {
      await page.getByRole('link', { name: label }).click()
      const from = page.getByRole('region', { name: 'Called from' })
      await from.getByRole('row', { name: /^127\.0\.0\.1 .* 1 1$/ }).waitFor()
      await page.getByRole('cell', { name: 'The key lacks the scope insufficient_scope' }).first().waitFor()
    },
  },
]

const countClicks = (): void => {
  Reflect.set(window, 'clicks', 0)
  window.addEventListener(
    'pointerdown',
    () => Reflect.set(window, 'clicks', Number(Reflect.get(window, 'clicks')) + 1),
    { capture: true },
  )
}

/** Tests that common tasks need few clicks. */
export function fewClicksTests(world: () => World): void {
  describe('with few clicks', () => {
    test.each(tasks)('$title: at most $mostClicks', async ({ title, mostClicks, prepare, carryOut }) => {
      const known = await prepare(world())
      const { context, page } = await world().openFor('korvex-admin')
      await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
      await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
      await page.evaluate(countClicks)
      await carryOut(page, known)
      const clicks = Number(await page.evaluate(() => Reflect.get(window, 'clicks')))
      if (screenshots !== undefined) {
        const name = title.replaceAll(' ', '-')
        await page.screenshot({ path: `${screenshots}/${clicks}-clicks-${name}.png`, fullPage: true })
      }
      expect(clicks).toBeGreaterThan(0)
      expect(clicks).toBeLessThanOrEqual(mostClicks)
      await context.close()
    })
  })
}
