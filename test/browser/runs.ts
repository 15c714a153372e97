import { type Run, connectorSchema, runSchema } from '@postern/contracts'
import type { Page, Request, Route } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { accessibilityFaults } from '../support/browser.ts'
import { send } from '../support/http.ts'
import { type World, open } from './world.ts'

type Row = readonly [code: string, note: string]

/** A connector set up by a program, with control over its runs. */
async function openConnector({ stack, tenants }: World, name: string, settings: object = {}) {
  const { key } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync'] })
  const ask = async (path: string, options: object = {}) => {
    const answer = await send(stack.gateways[0] ?? '', path, { key, ...options })
    expect([path, answer.status < 300], answer.text).toEqual([path, true])
    return answer
  }
  const body = {
    key: name,
    name,
    type: 'csv',
    dataset: 'auditable_entities',
    mapping: [
      { target: 'external_id', source: 'Code' },
      { target: 'name', source: 'Code' },
      { target: 'description', source: 'Note' },
      { target: 'type', constant: 'process' },
    ],
    ...settings,
  }
  const { id } = connectorSchema.parse((await ask('/api/v1/connectors', { method: 'POST', body })).json)
  const read = async (run: string): Promise<Run> => runSchema.parse((await ask(`/api/v1/sync-runs/${run}`)).json)
  return {
    id,
    ask,
    read,
    /** Runs it with these rows until the run ends or waits. */
    run: async (rows: readonly Row[], query = ''): Promise<Run> => {
      // Its own entities, so that rows of other connectors are not changed.
      const file = ['Code,Note', ...rows.map(([code, note]) => `${name}-${code},${note}`)].join('\n')
      const headers = { 'content-type': 'text/csv' }
      const path = `/api/v1/connectors/${id}/runs${query}`
      const begun = runSchema.parse((await ask(path, { method: 'POST', headers, body: file })).json)
      const over = ['needs_approval', 'succeeded', 'partial', 'failed', 'cancelled']
      await expect
        .poll(async () => over.includes((await read(begun.id)).status), { timeout: 60_000, interval: 200 })
        .toBe(true)
      return await read(begun.id)
    },
    approve: async ({ id: run, diff_hash: hash }: Run) =>
      await ask(`/api/v1/sync-runs/${run}/approve`, { method: 'POST', body: { diff_hash: hash } }),
  }
}

/** Between two reads of a list. */
const longestPauseMs = 15_000

const noLimits = { max_deactivate_pct: 100, max_deactivate: 1000, min_rows: 0, max_change_pct: 100 }

async function openRun({ page, stack }: World, { id }: Pick<Run, 'id'>): Promise<void> {
  await page.goto(`${stack.consoleUrl}/connectors/runs/${id}`)
  await page.getByRole('heading', { name: 'Changes' }).waitFor()
  await page.locator('main [aria-busy]').first().waitFor({ state: 'detached' })
}

async function figure(page: Page, label: string): Promise<string | null> {
  return await page.locator('.figures > div').filter({ hasText: label }).locator('dd').textContent()
}

/** Changes the responses about a run. */
async function tellOtherwise(page: Page, run: Run, change: Partial<Run>): Promise<() => Promise<void>> {
  const isRun = (url: URL) => url.pathname === `/api/v1/sync-runs/${run.id}`
  await page.route(isRun, async (route: Route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...runSchema.parse(await response.json()), ...change } })
  })
  return async () => await page.unroute(isRun)
}

/** Tests of runs that other people or programs change. */
export function runTests(world: () => World): void {
  describe('the page of a run', () => {
    const noted = ['A', 'B', 'C', 'D'].map((code): Row => [code, 'Noted'])
    const emptied = noted.map(([code]): Row => [code, ''])

    test('shows warnings where every row was taken in, while it waits and when another run has taken its place', async () => {
      const { page } = world()
      const { run, id, ask } = await openConnector(world(), 'warned')
      const first = await run(noted)
      await openRun(world(), first)
      await page.locator('.change').first().waitFor()
      // Control: this run shows no message.
      expect(await page.getByRole('heading', { name: 'Errors and warnings' }).count()).toBe(0)

      const waiting = await run(emptied)
      expect(waiting).toMatchObject({ status: 'needs_approval', counts: { invalid: 0 } })
      await openRun(world(), waiting)
      await page.getByRole('heading', { name: 'Errors and warnings' }).waitFor()
      await page.getByText('description: No row has this field, but 4 had it before').waitFor()
      expect(await page.getByText('Imported, but please check it').count()).toBe(0)
      expect(await accessibilityFaults(page), 'warnings').toEqual([])

      await ask(`/api/v1/connectors/${id}`, {
        method: 'PATCH',
        headers: { 'if-match': String((await ask(`/api/v1/connectors/${id}`)).headers['etag']) },
        body: { safety: noLimits },
      })
      await run(noted, '?mode=dry_run')
      await page.getByText('this one cannot be approved any more').waitFor()
      await page.getByText('Cancelled', { exact: true }).waitFor()
    })

    test('counts what is active again and what the source has no longer', async () => {
      const { page } = world()
      const settings = { missing_policy: 'deactivate', safety: noLimits }
      const { run } = await openConnector(world(), 'counted', settings)
      await run(noted)
      await openRun(world(), await run(noted.slice(0, 3)))
      expect([await figure(page, 'Gone from the source'), await figure(page, 'Reactivated')]).toEqual(['1', '0'])
      await openRun(world(), await run(noted))
      expect([await figure(page, 'Gone from the source'), await figure(page, 'Reactivated')]).toEqual(['0', '1'])
    })

    test('follows what somebody else decides while it waits', async () => {
      const { page } = world()
      const { run, approve } = await openConnector(world(), 'decided')
      await run(noted)
      const waiting = await run(emptied)
      await openRun(world(), waiting)
      await page.getByText('Needs approval', { exact: true }).waitFor()
      await page.getByRole('button', { name: 'Approve…' }).click()
      await page.getByRole('alertdialog').getByText('The page lists all of them.').waitFor()
      await page.keyboard.press('Escape')
      const asItIs = await tellOtherwise(page, waiting, { counts: { ...waiting.counts, created: 19_946 } })
      await page.reload()
      await page.getByRole('button', { name: 'Approve…' }).click()
      await page.getByRole('alertdialog').getByText('The page lists 200 of 19,950 changes').waitFor()
      await asItIs()
      await approve(waiting)
      await page.getByText('Done', { exact: true }).waitFor()
      expect(await page.getByRole('alertdialog').count()).toBe(0)
      expect(await page.getByRole('button', { name: 'Approve…' }).count()).toBe(0)
    })

    test('offers to undo whatever has ended and applied something: a run that failed, a rollback, and nothing of a connector that is retired', async () => {
      const { page } = world()
      const { run, id, ask } = await openConnector(world(), 'undone', { safety: noLimits })
      const made = await run(noted.slice(0, 2))
      const undo = page.getByRole('button', { name: 'Undo…' })
      const confirm = page.getByRole('button', { name: 'Undo the run' })
      for (const status of ['failed', 'cancelled'] as const) {
        const asItIs = await tellOtherwise(page, made, { status })
        await openRun(world(), made)
        await undo.waitFor()
        await asItIs()
      }
      const asItIs = await tellOtherwise(page, made, { counts: { ...made.counts, applied: 0 } })
      await openRun(world(), made)
      expect(await undo.count()).toBe(0)
      await asItIs()

      await openRun(world(), made)
      await undo.click()
      await confirm.click()
      await page.getByRole('heading', { level: 1, name: 'Rollback of undone' }).waitFor()
      await page.getByText('Done', { exact: true }).waitFor()
      const rollback = page.url()
      await openRun(world(), made)
      await page.getByText('This run has been undone.').waitFor()
      expect(await undo.count()).toBe(0)
      await page.goto(rollback)
      await undo.click()
      await confirm.click()
      await page.waitForURL((url) => url.href !== rollback)
      await expect.poll(async () => await figure(page, 'Reactivated')).toBe('2')
      await page.getByText('Done', { exact: true }).waitFor()

      await ask(`/api/v1/connectors/${id}`, { method: 'DELETE' })
      // With the original key, and with the one after retirement.
      for (const key of ['undone', `retired-${id}`]) {
        const asItWas = await tellOtherwise(page, made, { connector_key: key })
        await openRun(world(), made)
        await page.getByText(key === 'undone' ? 'The connector is retired' : 'Run of a retired connector').waitFor()
        await undo.waitFor({ state: 'detached' })
        expect(await page.getByText('retired-').count()).toBe(0)
        expect(await accessibilityFaults(page), 'a run of a retired connector').toEqual([])
        await asItWas()
      }
      await open(page, 'Connectors')
      await page
        .getByText(/a retired connector|the connector is retired/i)
        .first()
        .waitFor()
      expect(await page.getByText('retired-').count()).toBe(0)
    })
  })

  test('the lists of runs update automatically, and do not extend the session', async () => {
    const { stack } = world()
    const { context, page } = await world().openFor('harbourline-admin')
    await page.clock.install()
    const { run, approve, read, id } = await openConnector(world(), 'listed')
    const rows = ['A', 'B', 'C', 'D'].map((code): Row => [code, 'Noted'])
    const emptied = rows.map(([code]): Row => [code, ''])
    // The state beside the name of the connector on its page.
    const state = page.locator('.key-lead')
    const listed = page.locator('.run').filter({ hasText: 'listed' })
    const asked: (string | undefined)[] = []
    const note = (request: Request) => {
      if (/^\/api\/v1\/(?:sync-runs|connectors)\b/.test(new URL(request.url()).pathname)) {
        asked.push(request.headers()['x-by-itself'])
      }
    }
    await run(rows)
    for (const [path, changed] of [
      ['/connectors', emptied],
      [`/connectors/${id}`, rows],
    ] as const) {
      await page.goto(stack.consoleUrl + path)
      await listed.first().waitFor()
      const before = await listed.count()
      page.on('request', note)
      const waiting = await run(changed)
      await page.clock.fastForward(longestPauseMs)
      await listed.nth(before).waitFor()
      await listed.first().getByText('Needs approval', { exact: true }).waitFor()
      if (path !== '/connectors') await state.getByText('Needs approval', { exact: true }).waitFor()
      await approve(waiting)
      await expect.poll(async () => (await read(waiting.id)).status).toBe('succeeded')
      await page.clock.fastForward(longestPauseMs)
      await listed.first().getByText('Done', { exact: true }).waitFor()
      if (path !== '/connectors') await state.getByText('Active', { exact: true }).waitFor()
      page.off('request', note)
      expect(new Set(asked)).toEqual(new Set(['1']))
    }
    await context.close()
  })

  test('a conflict with somebody else’s change of a connector is shown, and the typed text remains', async () => {
    const { page, stack } = world()
    const { id, ask } = await openConnector(world(), 'shared')
    const path = `/api/v1/connectors/${id}`
    const change = async (body: object) => {
      const tag = String((await ask(path)).headers['etag'])
      await ask(path, { method: 'PATCH', headers: { 'if-match': tag }, body })
    }
    await page.goto(`${stack.consoleUrl}/connectors/${id}/change`)
    const name = page.getByRole('textbox', { name: 'Name', exact: true })
    const fewest = page.getByRole('textbox', { name: 'Rows read, at least' })
    await name.fill('As I call it')
    await fewest.fill('3')
    await change({ name: 'As they call it', missing_policy: 'deactivate' })
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The connector has changed since this form was opened').waitFor()
    expect(await accessibilityFaults(page), 'the conflict').toEqual([])

    await page.route(`**${path}`, async (route) => await route.abort())
    await page.getByRole('button', { name: 'Load the new version' }).click()
    await page.getByText('The connector cannot be loaded').waitFor()
    await page.unroute(`**${path}`)
    await page.getByRole('button', { name: 'Load the new version' }).click()
    await page.getByText('Changed by others: Name, Safeguards.').waitFor()
    await page.getByText('You changed these too: Name.').waitFor()
    expect(await accessibilityFaults(page), 'loaded again').toEqual([])
    expect([await name.inputValue(), await fewest.inputValue()]).toEqual(['As I call it', '3'])
    expect(await page.getByRole('radio', { name: /^Deactivate it/ }).isChecked()).toBe(true)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { level: 1, name: 'As I call it', exact: true }).waitFor()
    expect(connectorSchema.parse((await ask(path)).json)).toMatchObject({
      name: 'As I call it',
      missing_policy: 'deactivate',
      safety: { min_rows: 3 },
    })
  })
}
