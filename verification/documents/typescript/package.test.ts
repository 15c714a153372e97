import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import type { Browser } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startBrowser } from '../../../test/support/browser.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const client = join(root, 'packages', 'client')
const run = promisify(execFile)
const compiler = createRequire(import.meta.url).resolve('typescript/lib/tsc.js')

let folder: string
let stack: TestStack
let browser: Browser
let key: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-client-'))
  await run(process.execPath, ['--conditions=@postern/source', join(import.meta.dirname, 'run.ts'), folder])
  const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'))
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(folder, archive)], { cwd: folder })
  ;[stack, browser] = await Promise.all([startTestStack(), startBrowser()])
  const tenant = await stack.createTenant()
  const { key: value } = await stack.createKey(tenant, { scopes: ['read:findings', 'write:findings'] })
  key = value
})
afterAll(async () => {
  await browser.close()
  await stack.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Compiles a program against the installed package. Returns the compiler's complaints. */
async function complaintsAbout(program: string, options: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const project = await mkdtemp(join(folder, 'program-'))
  await writeFile(join(project, 'program.ts'), program)
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    target: 'es2023',
    module: 'nodenext',
    lib: ['es2023', 'dom', 'dom.iterable'],
    types: [],
    ...options,
  }
  await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }))
  const failed = run(process.execPath, [compiler, '--project', project]).then(
    () => '',
    (error: unknown) => (typeof error === 'object' && error !== null && 'stdout' in error ? String(error.stdout) : ''),
  )
  return await failed
}

const opening = `import { createPosternClient } from '@postern/client'
const client = createPosternClient({ baseUrl: 'https://postern.example.com', key: '' })
`

describe('the npm package of the client, in an empty project', () => {
  test('has no dependencies and does not mention zod or the workspace', async () => {
    const installed = join(folder, 'node_modules', '@postern', 'client')
    const manifest: unknown = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'))
    expect(manifest).not.toHaveProperty('dependencies')
    expect(await readdir(join(folder, 'node_modules', '@postern'))).toEqual(['client'])
    for (const part of ['dist', 'types']) {
      const names = (await readdir(join(installed, part))).filter((name) => /\.(?:js|ts)$/.test(name))
      expect(names.length).toBeGreaterThan(10)
      for (const name of names) {
        expect(await readFile(join(installed, part, name), 'utf8'), name).not.toMatch(/'(?:zod|@postern)/)
      }
    }
  })

  test.each([
    ['nodenext', {}],
    ['bundler', { module: 'esnext', moduleResolution: 'bundler' }],
  ])('compiles the examples of its README (%s)', async (_name, options) => {
    const examples = await readFile(join(client, 'test', 'readme-examples.ts'), 'utf8')
    const types = { types: ['node'], typeRoots: [join(root, 'node_modules', '@types')] }
    expect(await complaintsAbout(examples, { ...options, ...types })).toBe('')
  })

  test('rejects what the API would reject', async () => {
    const wrong = [
      ["await client.findings.create({ titel: 'A', condition: 'B', severity: 'high' })", "'titel' does not exist"],
      ["await client.findings.create({ title: 'A', condition: 'B', severity: 'grave' })", '"grave"'],
      ["client.findings.list({ severity: 'grave' })", '"grave"'],
      ['client.findings.list({ colour: 1 })', "'colour' does not exist"],
      ["const text: number = (await client.findings.get('F')).title", "'string' is not assignable to type 'number'"],
      ["new PosternProblem({}).is('no_such_code')", 'no_such_code'],
    ] as const
    const lines = wrong.map(([line]) => `{ ${line} }`)
    const complaints = await complaintsAbout(
      `import { PosternProblem } from '@postern/client'\n${opening}${lines.join('\n')}`,
    )
    for (const [line, complaint] of wrong) expect(complaints, line).toContain(complaint)
    expect(complaints.match(/error TS/g)?.length).toBe(wrong.length + 1)
  })

  test('works in Node.js', async () => {
    const program = `import { createPosternClient, PosternProblem } from '@postern/client'
const client = createPosternClient({ baseUrl: process.env.POSTERN_URL, key: process.env.POSTERN_KEY })
const { reference } = await client.findings.create({ title: 'Late', condition: 'Seen.', severity: 'high' })
const all = await client.findings.list().all()
const refused = await client.entities.list().all().catch((error) => error)
console.log(JSON.stringify([all.some((each) => each.reference === reference), refused instanceof PosternProblem, refused.code]))
`
    await writeFile(join(folder, 'program.mjs'), program)
    const env = { PATH: '', POSTERN_URL: stack.gateways[0], POSTERN_KEY: key }
    const { stdout } = await run(process.execPath, [join(folder, 'program.mjs')], { env })
    expect(JSON.parse(stdout)).toEqual([true, true, 'insufficient_scope'])
  })

  test('works in a browser, in a bundle', async () => {
    await mkdir(join(folder, 'bundle'))
    const entry = join(folder, 'bundle', 'entry.js')
    await writeFile(entry, "export { createPosternClient } from '@postern/client'\n")
    await build({
      root: folder,
      configFile: false,
      logLevel: 'error',
      build: {
        outDir: join(folder, 'bundle', 'made'),
        lib: { entry, formats: ['iife'], name: 'postern', fileName: 'client' },
      },
    })
    const [name = ''] = await readdir(join(folder, 'bundle', 'made'))
    const context = await browser.newContext({ bypassCSP: true })
    const page = await context.newPage()
    await page.goto(`${stack.gateways[0]}/docs`)
    await page.addScriptTag({ path: join(folder, 'bundle', 'made', name) })
    const seen: unknown = await page.evaluate(`(async () => {
      const client = postern.createPosternClient({ baseUrl: location.origin, key: ${JSON.stringify(key)} })
      const made = await client.findings.create({ title: 'From a browser', condition: 'Seen.', severity: 'low' })
      const read = await client.findings.get('ref:' + made.reference)
      return [read.title, await client.findings.list({ severity: 'low' }).count()]
    })()`)
    expect(seen).toEqual(['From a browser', 1])
    await context.close()
  })
})
