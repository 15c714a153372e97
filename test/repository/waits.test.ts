import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from '@swc/core'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')

/** How long something may take says nothing of whether it comes: less than this is a machine's fault, not the product's. */
const leastMs = 20_000

/** Waits of `vi` last one second by default; `expect.poll` follows vitest.config.ts. */
const waits = new Map([
  ['vi.waitFor', 'must say how long'],
  ['vi.waitUntil', 'must say how long'],
  ['expect.poll', 'may say how long'],
])

function member(node: unknown, name: string): unknown {
  return typeof node === 'object' && node !== null ? Reflect.get(node, name) : undefined
}

/** Returns what is wrong with a wait, or undefined. */
function faultOf(call: unknown): string | undefined {
  const callee = member(call, 'callee')
  const name = `${String(member(member(callee, 'object'), 'value'))}.${String(member(member(callee, 'property'), 'value'))}`
  const rule = waits.get(name)
  const given = member(call, 'arguments')
  if (rule === undefined || !Array.isArray(given)) return undefined
  const options: unknown = member(given[1], 'expression')
  const limit = member(options, 'type') === 'NumericLiteral' ? options : timeoutIn(options)
  if (limit === undefined)
    return rule === 'must say how long' ? `${name} without a timeout waits one second` : undefined
  const ms = member(limit, 'value')
  return typeof ms === 'number' && ms < leastMs ? `${name} waits ${ms} ms` : undefined
}

/** Returns the value of `timeout` in an object argument. */
function timeoutIn(options: unknown): unknown {
  const properties = member(options, 'properties')
  if (!Array.isArray(properties)) return undefined
  const found: unknown = properties.find((each) => member(member(each, 'key'), 'value') === 'timeout')
  return member(found, 'value')
}

function faultsIn(text: string, tsx = false): string[] {
  const faults: string[] = []
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const fault = member(node, 'type') === 'CallExpression' ? faultOf(node) : undefined
    if (fault !== undefined) faults.push(fault)
    for (const each of Object.values(node)) visit(each)
  }
  visit(parseSync(text, { syntax: 'typescript', tsx, target: 'esnext' }))
  return faults
}

test('waits in tests are long enough for a busy machine', () => {
  const paths = globSync(['{packages,services}/**/*.{ts,tsx}', '{test,verification}/**/*.ts'], {
    cwd: root,
    exclude: ['**/node_modules', '**/dist'],
  })
  const texts = paths.map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
  const waiting = texts.filter(({ text }) => /\bvi\s*\.wait/.test(text) || /\bpoll\([^]*\btimeout\b/.test(text))
  expect(waiting.length).toBeGreaterThan(20)
  const faults = waiting.flatMap(({ path, text }) =>
    faultsIn(text, path.endsWith('.tsx')).map((fault) => `${path}: ${fault}`),
  )
  expect(faults).toEqual([])
})

test.each([
  ['vi.waitFor(() => done())', ['vi.waitFor without a timeout waits one second']],
  [
    'await vi.waitUntil(async () => (await rows({ timeout: 30_000 })).length === 1)',
    ['vi.waitUntil without a timeout waits one second'],
  ],
  ['vi.waitFor(done, { interval: 20 })', ['vi.waitFor without a timeout waits one second']],
  ['vi.waitFor(done, { timeout: 1_500, interval: 20 })', ['vi.waitFor waits 1500 ms']],
  ['vi.waitFor(done, 500)', ['vi.waitFor waits 500 ms']],
  ['expect.poll(done, { timeout: 5000 }).toBe(1)', ['expect.poll waits 5000 ms']],
  ['vi.waitFor(done, { timeout: 30_000 }); expect.poll(done, { interval: 5 }).toBe(1); page.waitFor()', []],
])('control: %s is reported', (text, faults) => {
  expect(faultsIn(text)).toEqual(faults)
})
