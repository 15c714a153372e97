import { execFile, spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type TestStack, makeTestFolder, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..', '..')

let stack: TestStack
let key = ''
beforeAll(async () => {
  stack = await startTestStack()
  const tenant = await stack.createTenant()
  const created = await stack.createKey(tenant, { label: 'guides', scopes: ['*'] })
  key = created.key
})
afterAll(async () => await stack.stop())

interface Block {
  readonly guide: string
  readonly language: 'sh' | 'python'
  readonly code: string
}

/** The blocks of a guide that a reader would run. */
function blocksOf(guide: string): Block[] {
  const text = readFileSync(join(root, 'docs/guides', guide), 'utf8')
  return [...text.matchAll(/^```(?<language>sh|python)\n(?<code>[^]*?)^```$/gm)].map(({ groups = {} }) => ({
    guide,
    language: groups['language'] === 'python' ? 'python' : 'sh',
    code: groups['code'] ?? '',
  }))
}

/** Programs of the examples that this machine may lack. */
const missing = [
  { name: 'curl', command: ['curl', '--version'] },
  { name: 'python3 with requests', command: ['python3', '-c', 'import requests'] },
].flatMap(({ name, command: [program = '', ...args] }) =>
  spawnSync(program, args, { stdio: 'ignore' }).status === 0 ? [] : [name],
)
if (missing.length > 0) process.stdout.write(`SKIPPED guides: this machine lacks ${missing.join(' and ')}\n`)

const blocks = globSync('*.md', { cwd: join(root, 'docs/guides') })
  .toSorted()
  .flatMap(blocksOf)
  // These guides are about `npm start` itself, and automate-keys.md runs in machines-administer-keys.test.ts.
  .filter(({ guide }) => !['run-the-demo.md', 'verify-a-log.md', 'automate-keys.md'].includes(guide))

test('the guides have blocks to run', () => {
  expect(blocks.length).toBeGreaterThan(10)
})

describe.skipIf(missing.length > 0)('every block of a guide runs unchanged', () => {
  test.each(blocks.map((block, index) => [`${block.guide}, block ${index + 1}`, block] as const))(
    '%s',
    async (_title, { language, code }) => {
      const cwd = await makeTestFolder('guide')
      const env = { ...process.env, POSTERN_URL: stack.gateways[0], POSTERN_KEY: key }
      const [program, ...args] = language === 'sh' ? ['bash', '-euo', 'pipefail', '-c', code] : ['python3', '-c', code]
      const { stdout } = await run(program ?? '', args, { cwd, env })
      expect(stdout).not.toContain(key)
    },
  )
})
