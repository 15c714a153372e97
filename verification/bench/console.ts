// Functions for the page are written here and run there.
/// <reference lib="dom" />
import type { Page } from 'playwright-core'
import { fillTenant } from '../../test/browser/many-keys.ts'
import { type World, openWorld } from '../../test/browser/world.ts'
import { median, round } from './stats.ts'

/** In milliseconds, drawn with the processor. */
export interface ConsoleSpeed {
  readonly firstPaint: number
  readonly nextPaint: number
  readonly manyKeys: {
    readonly keys: number
    /** Five responses of 1,000 keys. */
    readonly whole: number
    /** Without a new frame while scrolling from end to end. */
    readonly longestPause: number
    readonly search: number
  }
}

const manyKeys = 5000
const steps = 120

export async function measureConsole({ rounds }: { readonly rounds: number }): Promise<ConsoleSpeed> {
  const world = await openWorld()
  try {
    const first: number[] = []
    const next: number[] = []
    for (let done = 0; done < rounds; done += 1) {
      const { page, context } = await world.openFor('harbourline-admin')
      first.push(await paintOf(page, world))
      next.push(await paintOf(page, world))
      await context.close()
    }
    await fillTenant(world.stack, world.tenants.korvex.id, manyKeys)
    const { page } = await world.openFor('korvex-admin')
    const whole = await readWhole(page, world)
    return {
      firstPaint: round(median(first), 0),
      nextPaint: round(median(next), 0),
      manyKeys: {
        keys: manyKeys,
        whole: round(whole, 0),
        longestPause: round(await scrollThrough(page), 0),
        search: round(await search(page), 0),
      },
    }
  } finally {
    await world.close()
  }
}

async function paintOf(page: Page, { stack }: World): Promise<number> {
  await page.goto(`${stack.consoleUrl}/settings/api-keys`)
  await page.getByText('No keys yet').waitFor()
  return await page.evaluate(
    async () =>
      await new Promise<number>((resolve) => {
        new PerformanceObserver((list) => resolve(list.getEntries().at(-1)?.startTime ?? Number.NaN)).observe({
          type: 'largest-contentful-paint',
          buffered: true,
        })
      }),
  )
}

async function readWhole(page: Page, { stack }: World): Promise<number> {
  await page.goto(`${stack.consoleUrl}/settings/api-keys`)
  await page.locator(`[aria-rowcount="${manyKeys + 1}"]`).waitFor()
  return await page.evaluate(() => performance.now())
}

async function scrollThrough(page: Page): Promise<number> {
  return await page.evaluate(
    async (count) =>
      await new Promise<number>((resolve) => {
        const end = document.documentElement.scrollHeight
        let [before, longest, step] = [performance.now(), 0, 0]
        const draw = (now: number) => {
          longest = Math.max(longest, now - before)
          before = now
          step += 1
          if (step > count) resolve(longest)
          else {
            scrollTo(0, (end * step) / count)
            requestAnimationFrame(draw)
          }
        }
        requestAnimationFrame(draw)
      }),
    steps,
  )
}

async function search(page: Page): Promise<number> {
  await page.getByRole('searchbox').focus()
  await page.evaluate(() => {
    const box = document.activeElement
    box?.addEventListener('input', () => {
      const from = performance.now()
      // The first frame may be drawn before React has rendered.
      requestAnimationFrame(() => requestAnimationFrame((at) => (document.body.dataset['search'] = String(at - from))))
    })
  })
  await page.keyboard.press('4')
  return Number(await page.locator('body[data-search]').getAttribute('data-search'))
}
