/**
 * @promise Browser: The guides are web pages without scripts, load nothing from other hosts, and have no accessibility fault.
 */

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { accessibilityFaults, startBrowser } from '../support/browser.ts'
import { send } from '../support/http.ts'

// A browser and a system on a machine that may be busy.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

const folder = join(import.meta.dirname, '../../docs/guides')
const guides = globSync('*.md', { cwd: folder })
  .map((file) => file.replace(/\.md$/, ''))
  .toSorted()

let stack: TestStack
let browser: Browser
let gateway: string
beforeAll(async () => {
  ;[stack, browser] = await Promise.all([startTestStack(), startBrowser()])
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => {
  await browser.close()
  await stack.stop()
})

const linksOf = (html: string) => [...html.matchAll(/<a href="([^"]*)"/g)].map(([, href = '']) => href)
const idsOf = (html: string) => [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)

describe('the guides', () => {
  test('have no page for an unknown name', async () => {
    for (const name of ['nothing', 'first-request.md', 'FIRST-REQUEST', '__proto__', 'constructor']) {
      const answer = await send(gateway, `/docs/guides/${name}`)
      expect([answer.status, answer.code], name).toEqual([404, 'not_found'])
    }
    expect((await send(gateway, '/docs/guides/first-request')).status).toBe(200)
  })

  test('are listed once each', async () => {
    const { text } = await send(gateway, '/docs/guides')
    const listed = linksOf(text).flatMap((href) => /^guides\/(.+)$/.exec(href)?.[1] ?? [])
    expect(listed.toSorted()).toEqual(guides)
  })

  test.each(guides)('have %s with its title, and say when it is unchanged', async (name) => {
    const target = `/docs/guides/${name}`
    const answer = await send(gateway, target)
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    const title = /^# (.+)$/m.exec(readFileSync(join(folder, `${name}.md`), 'utf8'))?.[1] ?? ''
    expect(answer.text).toContain(`<h1>${title}</h1>`)
    const headers = { 'if-none-match': String(answer.headers['etag']) }
    expect(await send(gateway, target, { headers })).toMatchObject({ status: 304, text: '' })
    const head = await send(gateway, target, { method: 'HEAD' })
    expect([head.status, head.text, head.headers['etag']]).toEqual([200, '', answer.headers['etag']])
    for (const coding of ['gzip', 'br']) {
      const packed = await fetch(new URL(target, gateway), { headers: { 'accept-encoding': coding } })
      expect(packed.headers.get('content-encoding')).toBe(coding)
      expect(await packed.text()).toBe(answer.text)
    }
  })

  test('link only to pages and headings that exist', async () => {
    const pages = new Map<string, string>()
    const targets = ['/docs/guides', ...guides.map((name) => `/docs/guides/${name}`)]
    for (const target of targets) pages.set(target, (await send(gateway, target)).text)
    // The next test follows the link of the reference.
    pages.set('/docs', '')
    const broken = [...pages].flatMap(([target, html]) =>
      linksOf(html).flatMap((href) => {
        const { origin, pathname, hash } = new URL(href, new URL(target, gateway))
        if (origin !== new URL(gateway).origin) return []
        const ids = idsOf(pages.get(pathname) ?? '')
        const isFound = pages.has(pathname) && (hash === '' || ids.includes(hash.slice(1)))
        return isFound ? [] : [`${target}: ${href}`]
      }),
    )
    expect(broken).toEqual([])
    expect(linksOf(pages.get('/docs/guides/single-sign-on') ?? '')).toEqual(
      expect.arrayContaining(['#claims-of-the-userinfo-endpoint', 'console-sessions#the-directory-ends-access']),
    )
  })

  test('are reached from the reference, load nothing from other hosts, and have no accessibility fault', async () => {
    const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 900 } })
    const page = await context.newPage()
    const complaints: string[] = []
    const requested = new Set<string>()
    page.on('console', (message) => complaints.push(message.text()))
    page.on('request', (request) => requested.add(request.url()))
    await page.goto(`${gateway}/docs`)
    await page.getByRole('link', { name: 'Guides', exact: true }).click()
    await page.getByRole('heading', { name: 'Guides', level: 1 }).waitFor()
    complaints.length = 0
    requested.clear()
    expect(await accessibilityFaults(page)).toEqual([])
    for (const name of ['Make the first request', 'Read lists', 'Single sign-on']) {
      await page.goto(`${gateway}/docs/guides`)
      await page.getByRole('link', { name, exact: true }).click()
      await page.getByRole('heading', { name, level: 1 }).waitFor()
      expect(await page.evaluate(() => getComputedStyle(document.body).marginTop)).toBe('0px')
      expect(await accessibilityFaults(page)).toEqual([])
    }
    expect(complaints).toEqual([])
    expect([
      ...new Set([...requested].filter((url) => !url.startsWith('data:')).map((url) => new URL(url).origin)),
    ]).toEqual([new URL(gateway).origin])
    await context.close()
  })
})
