import { expect, test } from 'vitest'
import { accessibilityFaults } from '../support/browser.ts'
import { type World, open } from './world.ts'

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
    expect(await accessibilityFaults(page), 'the form').toEqual([])
    await dialog.getByRole('button', { name: 'Create' }).click()
    await page.getByText('This secret is shown only once').waitFor()
    await page.getByText(/^whsec_/).waitFor()
    await page.getByRole('button', { name: 'Close without it' }).click()
    await page.getByRole('heading', { name: 'Ticket bridge' }).waitFor()
    expect(await page.content()).not.toContain('whsec_')

    await page.getByRole('button', { name: 'Edit' }).click()
    const edit = page.getByRole('dialog', { name: 'Edit endpoint' })
    expect(await edit.getByRole('textbox', { name: 'Events' }).inputValue()).toBe('*')
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
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No endpoints yet').waitFor()
  })
}
