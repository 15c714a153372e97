/// <reference lib="dom" />
import axe from 'axe-core'
import { findChromium } from '@postern/local-stack/testing'
import { type Browser, type Page, chromium } from 'playwright-core'
import { z } from 'zod'

const findingsSchema = z.array(z.string())

/** Starts a headless Chromium. */
export async function startBrowser(): Promise<Browser> {
  const { path, env } = await findChromium()
  const inherited = Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  return await chromium.launch({
    executablePath: path,
    // Its sandbox does not work in containers. It visits only our own pages.
    args: ['--no-sandbox'],
    env: { ...Object.fromEntries(inherited), ...env },
  })
}

const everything = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']"
/** Rules that depend on colors. All others have the same result in light and dark. */
const colours = "{ type: 'rule', values: ['color-contrast', 'link-in-text-block'] }"

/** Returns axe's WCAG 2.2 A and AA violations of the page, in light and dark, one per line. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.emulateMedia({ colorScheme: 'light' })
  const light = await runAxe(page, everything)
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = await runAxe(page, colours)
  await page.emulateMedia({ colorScheme: 'light' })
  return [...light, ...dark.map((fault) => `dark: ${fault}`)]
}

async function runAxe(page: Page, rules: string): Promise<string[]> {
  // Animations must end before colors and positions are final.
  await page.evaluate(async () => {
    const ending = document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().endTime !== Infinity)
    await Promise.allSettled(ending.map(async (each) => await each.finished))
  })
  // Half a megabyte of source, injected once per document.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const found: unknown = await page.evaluate(`axe
    .run(document, { resultTypes: ['violations'], runOnly: ${rules} })
    .then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => id + ' ' + target + ' ' + failureSummary)))`)
  return findingsSchema.parse(found)
}
