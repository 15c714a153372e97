import { expect, test } from 'vitest'
import { accessibilityFaults } from '../support/browser.ts'
import { type World, open } from './world.ts'

/** Tests of the audit feed, which runs behind the tests of webhooks. */
export function auditTests(world: () => World): void {
  test('the audit feed shows who deleted an endpoint, and its filters are in the address', async () => {
    const { page } = world()
    await open(page, 'Audit')
    const deleted = page.getByRole('row', { name: /webhook\.deleted/ })
    await deleted.first().waitFor()
    expect(await accessibilityFaults(page), 'the audit feed').toEqual([])
    await page.getByRole('textbox', { name: 'Id of the actor' }).fill('nobody')
    await page.getByText('No event matches these filters.').waitFor()
    expect(new URL(page.url()).searchParams.get('actor')).toBe('nobody')
    await page.reload()
    await page.getByText('No event matches these filters.').waitFor()
    await page.getByRole('textbox', { name: 'Id of the actor' }).fill('')
    await deleted.first().waitFor()
    await page.getByRole('button', { name: /Category/ }).click()
    await page.getByRole('option', { name: 'sign in' }).click()
    await page
      .getByRole('row', { name: /sign_in\.succeeded.*Amara Osei/ })
      .first()
      .waitFor()
  })
}
