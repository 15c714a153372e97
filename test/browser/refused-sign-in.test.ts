/**
 * @promise Browser: The page of a wrong setting shows a code and a reference to the log, and a plain sentence if the operator wants that.
 */

import { randomUUID } from 'node:crypto'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { accessibilityFaults, startBrowser } from '../support/browser.ts'

// A browser and two systems on a machine that may be busy.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

let open: TestStack
let closed: TestStack
let browser: Browser
/** The name differs in case from that in the tokens. */
const signIn = { roles: { from: ['/postern_roles'], map: { 'Postern-Admin': 'admin' } } }

beforeAll(async () => {
  ;[open, closed, browser] = await Promise.all([
    startTestStack({ console: true, signIn, env: { POSTERN_SIGN_IN_DETAILS: 'on' } }),
    startTestStack({ console: true, signIn }),
    startBrowser(),
  ])
})
afterAll(async () => {
  await browser.close()
  await Promise.all([open.stop(), closed.stop()])
})

async function signInAt(stack: TestStack): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 640 } })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(stack.consoleUrl)
  await page.getByRole('link', { name: 'Continue with your organization' }).click()
  await page.locator('button[value="harbourline-admin"]').click()
  await page.getByText('For your administrator:').waitFor()
  return page
}

/** Each names the tenant of the people's tokens. */
const cases: readonly (readonly [
  string,
  (stack: TestStack) => Promise<{ readonly id: string } | undefined>,
  Expected,
])[] = [
  [
    'tenant_claim_absent',
    async () => await Promise.resolve(undefined),
    {
      title: 'Your organization is not registered',
      sentence:
        'The token names no tenant (read from /postern_grants, /postern_tenant). Configure the provider to add the claim',
    },
  ],
  [
    'tenant_unknown',
    async () => await Promise.resolve({ id: randomUUID() }),
    {
      title: 'Your organization is not registered',
      sentence: 'The tenant of the token is unknown (read from /postern_tenant): found',
    },
  ],
  [
    'no_mapped_role',
    async (stack) => await stack.createTenant(),
    {
      title: 'You have no role in Postern',
      sentence: 'found ["postern-admin"], the nearest mapped name is "Postern-Admin". Add the name to `roles.map`',
    },
  ],
]
interface Expected {
  readonly title: string
  readonly sentence: string
}

describe.each([
  ['with details', () => open, true],
  ['without details', () => closed, false],
] as const)('%s', (_what, stackOf, isPlain) => {
  test.each(cases)('the page shows %s with the reference of the log', async (code, tenantOf, { title, sentence }) => {
    const stack = stackOf()
    const harbourline = await tenantOf(stack)
    await stack.nameTenants(harbourline === undefined ? {} : { harbourline })
    const page = await signInAt(stack)
    await page.getByRole('heading', { name: title }).waitFor()
    const text = await page.locator('body').innerText()
    const [, shown, reference = ''] = /administrator: (\w+), reference (\S+)/.exec(text) ?? []
    expect(shown).toBe(code)
    expect(text.includes(sentence), text).toBe(isPlain)
    const lines = (await stack.logs()).split('\n').filter((line) => line.includes(reference))
    expect(lines).toContainEqual(expect.stringMatching(`"event":"sign_in_refused".*"code":"${code}"`))
    expect(lines).toContainEqual(expect.stringContaining('"service":"gateway"'))
    expect(await accessibilityFaults(page)).toEqual([])
    const folder = process.env['POSTERN_SCREENSHOTS']
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${code}-${isPlain}.png` })
    await page.getByRole('link', { name: 'Sign in again' }).waitFor()
    await page.context().close()
  })
})
