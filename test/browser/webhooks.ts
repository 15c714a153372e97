// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import { keyOwnerEvents } from '@postern/contracts'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { accessibilityFaults } from '../support/browser.ts'
import { makeCertificate } from '../../services/sync/test/source-server.ts'
import { type World, loseAnswer, open, show } from './world.ts'

/** Runs in a page: renames the only endpoint, as another administrator would. */
const renameWebhook = async (description: string): Promise<void> => {
  const { csrf_token: token }: { readonly csrf_token: string } = await (await fetch('/auth/session')).json()
  const [{ id }]: readonly [{ readonly id: string }] = await (await fetch('/api/v1/webhooks')).json()
  const path = `/api/v1/webhooks/${id}`
  const etag = (await fetch(path)).headers.get('etag') ?? ''
  const headers = { 'x-csrf-token': token, 'content-type': 'application/json', 'if-match': etag }
  await fetch(path, { method: 'PATCH', headers, body: JSON.stringify({ description }) })
}

/** Tests of an administrator's work with webhooks. The receiver does not exist. */
export function webhookTests(world: () => World): void {
  test('an endpoint is created, shows its secret once, is tested, and is deleted', async () => {
    const { page } = world()
    await open(page, 'Webhooks')
    await page.getByText('No endpoints yet').waitFor()
    await page.getByRole('button', { name: 'New endpoint' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'New endpoint' })
    await dialog.getByRole('textbox', { name: 'URL' }).fill('http://127.0.0.1:9/hook')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText('Enter an https URL').waitFor()
    await dialog.getByRole('textbox', { name: 'URL' }).fill('https://10.0.0.1/hook')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText('The endpoint was not saved').waitFor()
    await dialog.getByRole('textbox', { name: 'URL' }).fill('https://127.0.0.1:9/hook')
    await dialog.getByRole('textbox', { name: 'Description' }).fill('Ticket bridge')
    const { cert } = await makeCertificate(['receiver.example'])
    await dialog.getByRole('textbox', { name: 'Certificates' }).fill(cert)
    expect(await accessibilityFaults(page), 'the form').toEqual([])
    await show(page, 'endpoint-with-certificates')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await page.getByText('This secret is shown only once').waitFor()
    await page.getByText(/^whsec_/).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Close without it' }).click()
    await page.getByRole('heading', { name: 'Ticket bridge' }).waitFor()
    expect(await page.content()).not.toContain('whsec_')

    await page.getByRole('button', { name: 'Edit' }).click()
    const edit = page.getByRole('dialog', { name: 'Edit endpoint' })
    expect(await edit.getByRole('textbox', { name: 'Events' }).inputValue()).toBe('*')
    expect(await edit.getByRole('textbox', { name: 'Certificates' }).inputValue()).toBe(cert)
    await edit.getByRole('textbox', { name: 'URL' }).fill('https://127.0.0.1:9/other')
    await edit.getByRole('textbox', { name: 'Events' }).fill('key.*\nfinding.created')
    await edit.getByRole('button', { name: 'Save' }).click()
    await page.getByText('https://127.0.0.1:9/other').waitFor()
    await page.getByText('key.*, finding.created').waitFor()
    expect(await page.getByRole('button', { name: 'Replace secret' }).count()).toBe(1)

    await page.getByRole('button', { name: 'Send a test' }).click()
    await page.getByRole('alertdialog').getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByRole('button', { name: 'Show deliveries' }).click()
    await page.getByRole('row', { name: /webhook\.test.*cannot be reached/ }).waitFor({ timeout: 60_000 })
    expect(await accessibilityFaults(page), 'the deliveries').toEqual([])
    await deleteEndpoint(page)
  })

  test('an endpoint whose response is lost is created once, and edits of two people do not overwrite each other', async () => {
    const { page } = world()
    await open(page, 'Webhooks')
    await page.getByRole('button', { name: 'New endpoint' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'New endpoint' })
    await dialog.getByRole('textbox', { name: 'URL' }).fill('https://127.0.0.1:9/lost')
    await page.route('**/api/v1/webhooks', loseAnswer, { times: 1 })
    await dialog.getByRole('button', { name: 'Create' }).click()
    const unsure = dialog.getByRole('alert').filter({ hasText: 'It is not known whether the endpoint was saved' })
    await unsure.getByText('Try again: nothing is done twice.').waitFor()
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText(/The endpoint was already created/).waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    const endpoint = page.getByRole('region', { name: '127.0.0.1:9' })
    await endpoint.waitFor()
    expect(await endpoint.count()).toBe(1)

    await page.getByRole('button', { name: 'Edit' }).click()
    const edit = page.getByRole('dialog', { name: 'Edit endpoint' })
    await edit.getByRole('textbox', { name: 'Description' }).fill('Mine')
    await page.evaluate(renameWebhook, 'Theirs')
    await edit.getByRole('button', { name: 'Save' }).click()
    await edit.getByText('Somebody else has changed the endpoint').waitFor()
    expect(await accessibilityFaults(page), 'the conflict').toEqual([])
    await edit.getByRole('button', { name: 'Show the current endpoint' }).click()
    await expect.poll(async () => await edit.getByRole('textbox', { name: 'Description' }).inputValue()).toBe('Theirs')
    await edit.getByRole('textbox', { name: 'Description' }).fill('Mine')
    await edit.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Mine' }).waitFor()
    await deleteEndpoint(page)
  })

  test('an endpoint for the owners of keys suggests the events that it can get', async () => {
    const { page } = world()
    await open(page, 'Webhooks')
    await page.getByRole('button', { name: 'New endpoint' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'New endpoint' })
    await dialog.getByRole('textbox', { name: 'URL' }).fill('mailto:{key_owner}')
    const events = dialog.getByRole('textbox', { name: 'Events' })
    expect(await events.inputValue()).toBe(keyOwnerEvents.join('\n'))
    expect(await dialog.getByRole('textbox', { name: 'Certificates' }).count()).toBe(0)
    await events.fill('key.*')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText(/can be key\.expiring/).waitFor()
    await events.fill('key.leaked\nkey.revoked')
    expect(await accessibilityFaults(page), 'the form').toEqual([])
    await show(page, 'endpoint-for-owners')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'mailto:{key_owner}' }).waitFor()
    await page.getByText('key.leaked, key.revoked').waitFor()
    expect(await page.getByRole('button', { name: 'Replace secret' }).count()).toBe(0)

    await page.getByRole('button', { name: 'Send a test' }).click()
    await page.getByRole('alertdialog').getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByRole('button', { name: 'Show deliveries' }).click()
    await page.getByRole('row', { name: /webhook\.test.*skipped.*no owner/ }).waitFor({ timeout: 60_000 })
    expect(await accessibilityFaults(page), 'the deliveries').toEqual([])
    await show(page, 'skipped-delivery')
    await deleteEndpoint(page)
  })
}

/** Deletes the only endpoint. */
async function deleteEndpoint(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByText('No endpoints yet').waitFor()
}
