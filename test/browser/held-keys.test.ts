// Functions for `page.evaluate` run in the browser.
/// <reference lib="dom" />
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { dialogTests } from './dialogs.ts'
import { testComplaints, useWorld } from './use-world.ts'
import { choose, fillForm, open, submit } from './world.ts'

const unavailable = {
  status: 503,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: '/problems/service-unavailable',
    title: 'Service unavailable',
    status: 503,
    code: 'service_unavailable',
    instance: 'test',
  }),
}

const roleRequired = {
  status: 403,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: '/problems/role-required',
    title: 'Role required',
    status: 403,
    code: 'role_required',
    instance: 'test',
  }),
}

/** Closes the dialog of a shown key, which asks because the key was not copied. */
async function leaveUncopied(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Done' }).click()
  await closeWithoutIt(page)
}

const shownKey = (page: Page) => page.getByText(/^postern_[0-9A-Za-z]{49}$/)
const closeWithoutIt = async (page: Page) => {
  await page.getByRole('button', { name: 'Close without it' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}
const make = async (page: Page, label: string) => {
  await fillForm(page, label)
  await submit(page)
  await shownKey(page).waitFor()
  await leaveUncopied(page)
}

/** Simulates returning from another tab; the page then reads the session. */
const focus = async (page: Page) => {
  const read = page.waitForResponse(/\/auth\/session$/)
  await page.evaluate(() => dispatchEvent(new Event('focus')))
  await (await read).finished()
}
const drawn = async (page: Page) => {
  await page.evaluate(async () => await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
}
/** Simulates that the page becomes visible; it then reads the list of keys. */
const seeAgain = async (page: Page) => {
  const read = page.waitForResponse(/\/api\/v1\/api-keys\?limit=1000$/)
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  return await read
}
/** Blocks reads of the key, so that the change is the first rejected request. */
const leaveKeyUnread = async (page: Page) => {
  await page.route(/\/api\/v1\/api-keys\/[0-9a-f-]{36}$/, async (route) => await route.abort(), { times: 1 })
}
/** Records the changes that a page requests, with their person. */
const changesOf = (page: Page) => {
  const changes: { readonly path: string; readonly token: string | undefined }[] = []
  page.on('request', (request) => {
    if (request.method() === 'GET') return
    changes.push({ path: new URL(request.url()).pathname, token: request.headers()['x-csrf-token'] })
  })
  return changes
}
/** Simulates that an administrator of the provider removes the person's role. */
const takeRoles = async (page: Page) => {
  await page.route(/\/auth\/session$/, async (route) => {
    const response = await route.fetch()
    const session: object = await response.json()
    await route.fulfill({ response, json: { ...session, roles: ['viewer'] } })
  })
  await focus(page)
}
/** Returns the token of the current session. */
const tokenOf = async (page: Page): Promise<string> =>
  await page.evaluate(async () => {
    const { csrf_token: token }: { readonly csrf_token: string } = await (await fetch('/auth/session')).json()
    return token
  })

const world = useWorld()

const goToKeys = async (page: Page) => {
  await page.goto(`${world().stack.consoleUrl}/settings/api-keys`)
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
}
const openKeys = async () => {
  const opened = await world().openFor('harbourline-admin')
  await goToKeys(opened.page)
  return opened
}
/** Leaves a way back to another page of the console. */
const openKeysAfterConnectors = async () => {
  const opened = await world().openFor('harbourline-admin')
  await opened.page.goto(`${world().stack.consoleUrl}/connectors`)
  await open(opened.page, 'API keys')
  return opened
}
describe('a key that is on the screen and nowhere else', () => {
  test('stays there when the page behind it cannot be read again', async () => {
    const { context, page } = await openKeys()
    await make(page, 'Page that fails')
    await page.getByRole('link', { name: 'Page that fails' }).click()
    await page.getByRole('button', { name: 'Rotate' }).first().click()
    const again = page.waitForResponse((answer) => answer.status() === 503)
    await page.route(/\/api\/v1\/api-keys\/[0-9a-f-]{36}$/, async (route) => await route.fulfill(unavailable))
    await page.getByRole('button', { name: 'Generate new key' }).click()
    await again
    await page.getByText('The key cannot be shown').waitFor()
    expect(await shownKey(page).isVisible()).toBe(true)
    await leaveUncopied(page)
    await context.close()
  })

  test('stays there when the list behind it is refused, and when the role of an administrator goes away', async () => {
    const { context, page } = await openKeys()
    await fillForm(page, 'Role that goes')
    await submit(page)
    await shownKey(page).waitFor()
    await page.route(/\/api\/v1\/api-keys\?limit=1000$/, async (route) => await route.fulfill(roleRequired), {
      times: 1,
    })
    expect((await seeAgain(page)).status()).toBe(403)
    await page.getByText('Only administrators can manage API keys').waitFor()
    expect(await shownKey(page).isVisible()).toBe(true)
    expect((await seeAgain(page)).status()).toBe(200)
    await page.getByText('Only administrators can manage API keys').waitFor({ state: 'detached' })
    await takeRoles(page)
    await page.getByText('Only administrators can manage API keys').waitFor()
    expect(await shownKey(page).isVisible()).toBe(true)
    await leaveUncopied(page)
    await context.close()
  })

  test('stays there when the role goes away at the page of a key', async () => {
    const { context, page } = await openKeys()
    await make(page, 'Page that goes')
    await page.getByRole('link', { name: 'Page that goes' }).click()
    await page.getByRole('button', { name: 'Rotate' }).first().click()
    await page.getByRole('button', { name: 'Generate new key' }).click()
    await shownKey(page).waitFor()
    await takeRoles(page)
    await page.getByText('Only administrators can manage API keys').waitFor()
    expect(await shownKey(page).isVisible()).toBe(true)
    await leaveUncopied(page)
    await context.close()
  })

  test('is not left behind by the way back of the browser without a question', async () => {
    const { context, page } = await openKeysAfterConnectors()
    await fillForm(page, 'Way back')
    await submit(page)
    await shownKey(page).waitFor()
    await page.goBack()
    const question = page.getByRole('alertdialog', { name: 'You have not copied the key' })
    await question.waitFor()
    expect(new URL(page.url()).pathname).toBe('/settings/api-keys')
    await page.getByRole('button', { name: 'Back to the key' }).click()
    await shownKey(page).waitFor()
    await leaveUncopied(page)
    // From then on it leads back as usual.
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'Connectors' }).waitFor()
    await context.close()
  })

  test.each(['Generate', 'Rotate'])('is waited for, whatever is pressed after %s', async (verb) => {
    const { context, page } = await openKeysAfterConnectors()
    const label = `Impatient ${verb}`
    if (verb === 'Rotate') await make(page, label)
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    await page.route(/\/api\/v1\/api-keys(?:\/[0-9a-f-]{36}\/rotate)?$/, async (route) => {
      if (route.request().method() === 'POST') await held
      await route.continue()
    })
    if (verb === 'Rotate') {
      await choose(page, label, 'Rotate…')
      await page.getByRole('button', { name: 'Generate new key' }).click()
    } else {
      await fillForm(page, label)
      await submit(page)
    }
    expect(await page.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true)
    await page.keyboard.press('Escape')
    await page.mouse.click(5, 5)
    await page.goBack()
    letGo()
    await shownKey(page).waitFor()
    await leaveUncopied(page)
    await context.close()
  })
})

test('a list of keys that was asked for before a revocation takes nothing of it back', async () => {
  const { context, page } = await openKeys()
  await make(page, 'Slow list')
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
  await page.route(/\/api\/v1\/api-keys\?limit=1000$/, async (route) => {
    const answer = await route.fetch()
    await held
    await route.fulfill({ response: answer })
  })
  const isLate = page.waitForResponse(/\/api\/v1\/api-keys\?limit=1000$/)
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  const row = page.getByRole('row').filter({ hasText: 'Slow list' })
  await row.getByText('Active', { exact: true }).waitFor()
  await choose(page, 'Slow list', 'Revoke…')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText(/Enforced on all gateways/).waitFor()
  await page.getByRole('button', { name: 'Close' }).last().click()
  await row.getByText('Revoked', { exact: true }).waitFor()
  letGo()
  await (await isLate).finished()
  await drawn(page)
  expect(await row.locator('.badge').allTextContents()).toEqual(['Revoked'])
  await context.close()
})

describe('a person who signs in again in another tab', () => {
  test('can continue in this one', async () => {
    const [{ context, page }, again] = [await openKeys(), await world().openFor('harbourline-admin')]
    await make(page, 'Two tabs')
    await context.addCookies(await again.context.cookies())
    await leaveKeyUnread(page)
    await choose(page, 'Two tabs', 'Revoke…')
    await page.getByRole('button', { name: 'Revoke key' }).click()
    await page.getByText(/Enforced on all gateways/).waitFor()
    expect(await page.getByText('Key revoked').isVisible()).toBe(true)
    await Promise.all([context.close(), again.context.close()])
  })

  test('can read in this one: the old token is refused once, then the request succeeds', async () => {
    const [{ context, page }, again] = [await openKeys(), await world().openFor('harbourline-admin')]
    await make(page, 'Read on')
    await context.addCookies(await again.context.cookies())
    const statuses: number[] = []
    page.on('response', (answer) => {
      if (answer.url().endsWith('?limit=1000')) statuses.push(answer.status())
    })
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
    await expect.poll(() => statuses.at(-1)).toBe(200)
    expect(statuses).toEqual([403, 200])
    await drawn(page)
    expect(await page.getByText('The keys could not be read again').count()).toBe(0)
    await page.getByRole('link', { name: 'Read on' }).waitFor()
    await Promise.all([context.close(), again.context.close()])
  })

  test.each(['korvex-admin', 'harbourline-viewer'])(
    'as %s does not see the key or the list of the person before',
    async (person) => {
      const [{ context, page }, other] = [await openKeys(), await world().openFor(person)]
      page.on('dialog', (question) => void question.dismiss())
      const label = `Beside ${person}`
      await fillForm(page, label)
      await submit(page)
      await shownKey(page).waitFor()
      await context.addCookies(await other.context.cookies())
      expect((await seeAgain(page)).status()).toBe(403)
      await page.getByText('The keys could not be read again').waitFor()
      await page.getByText('The session may have changed in another tab').waitFor()
      expect(await shownKey(page).isVisible()).toBe(true)
      expect(await page.getByText(label, { exact: true }).isVisible()).toBe(true)
      await leaveUncopied(page)
      // The page may reload now.
      const loaded = page.waitForEvent('load')
      await page.evaluate(() => dispatchEvent(new Event('focus')))
      await loaded
      await page
        .getByText(person === 'korvex-admin' ? 'No keys yet' : 'Only administrators can manage API keys')
        .waitFor()
      expect(await page.getByText(label, { exact: true }).count()).toBe(0)
      await Promise.all([context.close(), other.context.close()])
    },
  )

  test('as somebody else sees nothing of the one under the name of the other', async () => {
    const [{ context, page }, other] = [await openKeys(), await world().openFor('korvex-admin')]
    await make(page, 'Of Harbourline')
    await context.addCookies(await other.context.cookies())
    await leaveKeyUnread(page)
    await choose(page, 'Of Harbourline', 'Revoke…')
    const loaded = page.waitForEvent('load')
    await page.getByRole('button', { name: 'Revoke key' }).click()
    await loaded
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
    await page.getByText('No keys yet').waitFor()
    expect(await page.getByText('Of Harbourline').count()).toBe(0)
    await Promise.all([context.close(), other.context.close()])
  })

  test('as a different person keeps nothing if a visible key prevents a reload', async () => {
    const [{ context, page }, other] = [await openKeys(), await world().openFor('korvex-admin')]
    let asked = 0
    page.on('dialog', (question) => {
      asked += 1
      void question.dismiss()
    })
    const changes = changesOf(page)
    await fillForm(page, 'Still of Harbourline')
    await submit(page)
    await shownKey(page).waitFor()
    await context.addCookies(await other.context.cookies())
    await focus(page)
    await expect.poll(() => asked).toBe(1)
    // Asked once: the end of the question focuses the page again, and the key must remain copyable.
    await focus(page)
    await drawn(page)
    expect(asked).toBe(1)
    expect(await shownKey(page).isVisible()).toBe(true)
    await leaveUncopied(page)
    await leaveKeyUnread(page)
    await choose(page, 'Still of Harbourline', 'Revoke…')
    const loaded = page.waitForEvent('load')
    await page.getByRole('button', { name: 'Revoke key' }).click()
    await loaded
    await page.getByText('No keys yet').waitFor()
    expect(await page.getByText('Still of Harbourline').count()).toBe(0)
    expect(changes.map(({ path }) => path.split('/').at(-1))).toEqual(['api-keys', 'revoke'])
    expect(new Set(changes.map(({ token }) => token)).size).toBe(1)
    expect(changes[0]?.token).not.toBe(await tokenOf(page))
    await Promise.all([context.close(), other.context.close()])
  })

  test('as somebody else makes no key that the one has asked for, and the page says why', async () => {
    const [{ context, page }, other] = [await openKeys(), await world().openFor('korvex-admin')]
    page.on('dialog', (question) => void question.dismiss())
    const changes = changesOf(page)
    await fillForm(page, 'For nobody')
    await context.addCookies(await other.context.cookies())
    for (const count of [1, 2]) {
      await submit(page)
      await expect.poll(() => changes.length).toBe(count)
      await page.getByText('No key was generated').waitFor()
      await page.getByText('The session may have changed in another tab').waitFor()
    }
    const token = await tokenOf(page)
    expect(changes.filter((change) => change.token === token)).toEqual([])
    await goToKeys(other.page)
    await other.page.getByText('No keys yet').waitFor()
    await Promise.all([context.close(), other.context.close()])
  })

  test('as somebody else after the end of a session does not send what was still on its way', async () => {
    const [{ context, page }, other] = [await openKeys(), await world().openFor('korvex-admin')]
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    await page.route(/\/api\/v1\/api-keys$/, async (route) => {
      await held
      await route.continue()
    })
    const changes = changesOf(page)
    await fillForm(page, 'On its way')
    await submit(page)
    await expect.poll(() => changes.length).toBe(1)
    await context.clearCookies()
    await focus(page)
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    await context.addCookies(await other.context.cookies())
    const after: string[] = []
    page.on('request', (request) => after.push(new URL(request.url()).pathname))
    const refused = page.waitForResponse(/\/api\/v1\/api-keys$/)
    letGo()
    expect((await refused).status()).toBe(403)
    await (await refused).finished()
    await drawn(page)
    expect(after).toEqual([])
    expect(await page.getByRole('heading', { name: 'Your session has ended' }).isVisible()).toBe(true)
    await goToKeys(other.page)
    await other.page.getByText('No keys yet').waitFor()
    await Promise.all([context.close(), other.context.close()])
  })

  test('as somebody else while a session ends does not take over what was asked for before', async () => {
    const [{ context, page }, other] = [await openKeys(), await world().openFor('korvex-admin')]
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    const { promise: isRead, resolve: read } = Promise.withResolvers<void>()
    const changes = changesOf(page)
    await fillForm(page, 'Between two')
    await context.addCookies(await other.context.cookies())
    await page.route(
      /\/auth\/session$/,
      async (route) => {
        const answer = await route.fetch()
        read()
        await held
        await route.fulfill({ response: answer })
      },
      { times: 1 },
    )
    const late = page.waitForResponse((answer) => answer.url().endsWith('/auth/session') && answer.ok())
    await submit(page)
    await isRead
    await context.clearCookies()
    await page.evaluate(() => dispatchEvent(new Event('focus')))
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    await context.addCookies(await other.context.cookies())
    letGo()
    await (await late).finished()
    await drawn(page)
    expect(await page.getByRole('heading', { name: 'Your session has ended' }).isVisible()).toBe(true)
    expect(changes.map(({ path }) => path)).toEqual(['/api/v1/api-keys'])
    await goToKeys(other.page)
    await other.page.getByText('No keys yet').waitFor()
    await Promise.all([context.close(), other.context.close()])
  })
})

dialogTests(world)
testComplaints(world)
