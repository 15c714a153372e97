import { connectorSchema, pushResultSchema } from '@postern/contracts'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { accessibilityFaults } from '../support/browser.ts'
import { send } from '../support/http.ts'
import { auditTests } from './audit.ts'
import { runTests } from './runs.ts'
import { testComplaints, useWorld } from './use-world.ts'
import { webhookTests } from './webhooks.ts'
import { open, pick } from './world.ts'

const name = 'Register <img src=x>'

function fileOf(names: readonly string[]) {
  const csv = ['Code,Title', ...names.map((each) => `${each},${each}`)].join('\n')
  return { name: 'processes.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) }
}

const world = useWorld()

test('a connector is set up, tried and run with a file, and what goes too far is looked at before it is applied', async () => {
  const { page, stack, tenants } = world()
  await open(page, 'Connectors')
  await page.getByRole('button', { name: 'New connector' }).first().click()
  await page.getByRole('heading', { level: 1, name: 'New connector' }).waitFor()
  await page.getByRole('button', { name: 'Set up connector' }).click()
  await page.getByText('Enter a name').waitFor()
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(name)
  await page.getByRole('button', { name: 'Map the fields' }).click()
  const [key, title, type] = [0, 1, 2].map((place) => page.locator('.rule').nth(place))
  // The list is open, and the rest of the page stays readable for screen readers.
  await key?.getByRole('combobox', { name: 'Field' }).click()
  await page.getByRole('listbox').waitFor()
  expect(await accessibilityFaults(page), 'a list of offers').toEqual([])
  await key?.getByRole('combobox', { name: 'Column' }).click()
  await page.getByRole('listbox').waitFor({ state: 'detached' })
  await key?.getByRole('combobox', { name: 'Column' }).fill('Code')
  await title?.getByRole('combobox', { name: 'Column' }).fill('Title')
  await page.keyboard.press('Escape')
  await type?.getByRole('button', { name: 'Comes from' }).click()
  await page.getByRole('option', { name: 'A fixed value' }).click()
  await type?.getByRole('combobox', { name: 'Value' }).fill('process')
  await page.keyboard.press('Escape')
  await page.getByRole('radio', { name: /^Deactivate it/ }).press('Space')
  expect(await accessibilityFaults(page), 'the form').toEqual([])
  await page.getByRole('button', { name: 'Set up connector' }).click()
  await page.getByRole('heading', { level: 1, name }).waitFor()

  await page.getByLabel('File to read').setInputFiles(fileOf(['Payments']))
  await page.getByRole('button', { name: 'Test', exact: true }).click()
  await page.getByText('The source was read, and its rows fit').waitFor()
  await page.locator('.change').getByText('process', { exact: true }).waitFor()
  expect(await accessibilityFaults(page), 'the page of a connector').toEqual([])

  const runWith = async (names: readonly string[]) => {
    await open(page, 'Connectors')
    await page.getByRole('button', { name: `Run… ${name}` }).click()
    await page.getByRole('radio', { name: /^Run it/ }).press('Space')
    await page.getByRole('dialog').getByLabel('File to read').setInputFiles(fileOf(names))
    await page.getByRole('button', { name: 'Start' }).click()
  }
  await runWith(['Payments', 'Lending', 'Treasury'])
  await page.getByText('Done', { exact: true }).waitFor()
  await page.getByRole('heading', { name: 'Changes' }).waitFor()

  await runWith(['Payments'])
  await page.getByText('Needs approval', { exact: true }).waitFor()
  await page.locator('.change').getByText('Treasury').first().waitFor()
  expect(await accessibilityFaults(page), 'a run that waits').toEqual([])
  await page.getByRole('button', { name: 'Approve…' }).click()
  expect(await accessibilityFaults(page), 'the approval').toEqual([])
  await page.getByRole('button', { name: 'Approve and apply' }).click()
  await page.getByText('Done', { exact: true }).waitFor()
  const entities = await send(stack.gateways[0] ?? '', '/api/v1/entities?status=archived&count=true&limit=1', {
    key: (await stack.createKey(tenants.harbourline, { scopes: ['read:universe'] })).key,
  })
  expect(entities.headers['x-total-count'], entities.text).toBe('2')
  expect(await page.locator('main img').count()).toBe(0)
})

test('a secret of a connector goes in and never comes back, and a connector is changed, paused and retired', async () => {
  const { page, stack, tenants } = world()
  const { key } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync'] })
  const read = async () => {
    const { text } = await send(stack.gateways[0] ?? '', '/api/v1/connectors?key=hr-people', { key })
    expect(text).not.toContain(secret)
    return z.array(connectorSchema).parse(JSON.parse(text))[0]
  }
  const secret = 'a-token-of-the-directory'
  await open(page, 'Connectors')
  await page.getByRole('button', { name: 'New connector' }).first().click()
  await page.getByRole('radio', { name: /^SCIM directory/ }).press('Space')
  await page.getByRole('textbox', { name: 'Base URL' }).fill('https://directory.invalid/scim/v2')
  await pick(page, /Credentials$/, 'Bearer token')
  await page.getByLabel('Token', { exact: true }).fill(secret)
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('HR people')
  const authority = page.getByRole('checkbox', { name: /^It decides about access/ })
  expect(await authority.count()).toBe(0)
  await pick(page, /Data$/, 'People')
  await authority.press('Space')
  expect(await accessibilityFaults(page), 'the form of a connector of people').toEqual([])
  await pick(page, /Runs$/, 'Once a week')
  await pick(page, /On$/, 'Friday')
  await page.getByRole('combobox', { name: 'Time zone' }).fill('asia/tok')
  await page.getByRole('option', { name: 'Asia/Tokyo' }).click()
  await page.getByRole('button', { name: 'Set up connector' }).click()
  await page.getByRole('heading', { level: 1, name: 'HR people' }).waitFor()
  await page.getByText('Every Friday at 02:30').waitFor()
  await page.getByText('It decides about access').waitFor()
  const made = await read()
  expect(made).toMatchObject({
    type: 'scim',
    dataset: 'people',
    authoritative: true,
    config: { url: 'https://directory.invalid/scim/v2', auth: { kind: 'bearer' } },
    schedule: { cron: '30 2 * * 5', time_zone: 'Asia/Tokyo' },
  })
  expect(Object.keys(made?.secrets ?? {})).toEqual(['token'])
  await page.getByRole('button', { name: 'Test', exact: true }).click()
  await page.getByText('The source could not be read').waitFor()

  await page.getByRole('button', { name: 'Change', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Change HR people' }).waitFor()
  expect(await page.getByLabel('Token', { exact: true }).inputValue()).toBe('')
  expect(await page.content()).not.toContain(secret)
  expect(await accessibilityFaults(page), 'the form of a change').toEqual([])
  expect(await authority.isChecked()).toBe(true)
  await authority.press('Space')
  await page.getByRole('textbox', { name: 'Filter' }).fill('active eq true')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('heading', { level: 1, name: 'HR people', exact: true }).waitFor()
  expect(await page.getByText('It decides about access').count()).toBe(0)
  const changed = await read()
  expect(changed?.authoritative).toBe(false)
  expect(changed?.config['filter']).toBe('active eq true')
  expect(changed?.secrets).toEqual(made?.secrets)

  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: 'Pause' }).click()
  await page.getByText('Paused').first().waitFor()
  expect((await read())?.state).toBe('paused')
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: 'Retire…' }).click()
  await page.getByRole('alertdialog', { name: 'Retire HR people?' }).waitFor()
  expect(await accessibilityFaults(page), 'the question').toEqual([])
  await page.getByRole('button', { name: 'Retire', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Connectors' }).waitFor()
  expect(await read()).toBeUndefined()
  await page.goto(`${stack.consoleUrl}/connectors/${made?.id}/change`)
  await page.getByRole('heading', { level: 1, name: 'No such connector' }).waitFor()
})

test('a run that a program has pushed shows its numbers, and says that there is no more', async () => {
  const { page, stack, tenants } = world()
  const { key } = await stack.createKey(tenants.harbourline, { scopes: ['admin:sync'] })
  const body = [{ external_id: 'PUSHED-1', name: 'Pushed', type: 'process' }]
  const answer = await send(stack.gateways[0] ?? '', '/api/v1/sync/entities', { key, method: 'POST', body })
  const { run_id: run } = pushResultSchema.parse(answer.json)
  await page.goto(`${stack.consoleUrl}/connectors/runs/${run}`)
  await page.getByText('only the numbers above are stored').waitFor()
  expect(await page.getByText('Applied', { exact: true }).count()).toBe(0)
})

webhookTests(world)
auditTests(world)
runTests(world)
testComplaints(world)
