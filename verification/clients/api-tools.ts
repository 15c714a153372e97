import { spawn } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { findFreePort } from '@postern/local-stack/testing'
import { z } from 'zod'
import { CommandError, run } from './command.ts'
import { openApiTypescript } from './javascript.ts'
import type { Tool, Workshop } from './tool.ts'

/** The fewest reads that a collection must have for the run to prove anything. */
const fewestReads = 20

async function install(workshop: Workshop, name: string, packages: Readonly<Record<string, string>>): Promise<string> {
  const cwd = join(workshop.folder, name)
  await mkdir(cwd, { recursive: true })
  await writeFile(join(cwd, 'package.json'), JSON.stringify({ private: true, dependencies: packages }))
  await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd })
  return cwd
}

interface Item {
  readonly name: string
  readonly item?: readonly Item[] | undefined
  readonly request?: { readonly method: string; readonly url: { readonly path: readonly string[] } } | undefined
}

const itemSchema: z.ZodType<Item> = z.looseObject({
  name: z.string(),
  item: z.array(z.lazy(() => itemSchema)).optional(),
  request: z
    .looseObject({
      method: z.string(),
      url: z.looseObject({ path: z.array(z.string()) }),
    })
    .optional(),
})
const collectionSchema = z.looseObject({ item: z.array(itemSchema) })
const documentSchema = z.looseObject({
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.looseObject({
        security: z.array(z.record(z.string(), z.unknown())),
        responses: z.record(z.string(), z.unknown()),
      }),
    ),
  ),
})

/** An export of a tenant without approved findings is 404. */
const withoutContent = '/exports/'

function readsOf(items: readonly Item[], mayRead: (path: string) => boolean): Item[] {
  return items.flatMap((item) => {
    if (item.item !== undefined) return readsOf(item.item, mayRead)
    if (item.request?.method !== 'GET') return []
    const path = `/${item.request.url.path.join('/')}`
    return !path.includes(':') && !path.includes(withoutContent) && mayRead(path) ? [item] : []
  })
}

/** Imports the document as Postman does, and sends every read that needs no id. */
const postman: Tool = {
  name: 'postman',
  needs: ['npm'],
  prove: async (workshop) => {
    const cwd = await install(workshop, 'postman', { 'openapi-to-postmanv2': '6.3.3', newman: '6.2.2' })
    const at = (program: string) => join(cwd, 'node_modules', '.bin', program)
    const options = 'folderStrategy=Tags,enableOptionalParameters=false'
    await run(at('openapi2postmanv2'), ['-s', workshop.document, '-o', 'all.json', '-O', options], { cwd })
    const collection = collectionSchema.parse(JSON.parse(await readFile(join(cwd, 'all.json'), 'utf8')))
    const { paths } = documentSchema.parse(JSON.parse(await readFile(workshop.document, 'utf8')))
    const reads = readsOf(collection.item, (path) => {
      const { security = [{}], responses = {} } = paths[path]?.['get'] ?? {}
      return '200' in responses && (security.length === 0 || security.some((each) => 'keyAuth' in each))
    })
    if (reads.length < fewestReads) throw new CommandError(`the collection has only ${reads.length} reads`)
    const succeeds = "pm.test('succeeds', () => pm.response.to.have.status(200))"
    const event = [{ listen: 'test', script: { type: 'text/javascript', exec: [succeeds] } }]
    await writeFile(join(cwd, 'reads.json'), JSON.stringify({ ...collection, item: reads, event }))
    const { POSTERN_URL: baseUrl, POSTERN_KEY: key } = workshop.variables
    const values = Object.entries({ baseUrl, apiKey: `ApiKey ${key}` }).map(([name, value]) => ({ key: name, value }))
    await writeFile(join(cwd, 'environment.json'), JSON.stringify({ values }))
    await run(at('newman'), ['run', 'reads.json', '--environment', 'environment.json'], { cwd })
  },
}

/** Prism fails a request or answer that breaks the document. It rewrites bodies that are not JSON. */
const prism: Tool = {
  name: 'prism',
  needs: ['npm'],
  prove: async (workshop) => {
    const cwd = await install(workshop, 'prism', { '@stoplight/prism-cli': '5.16.0' })
    const port = String(await findFreePort())
    const { POSTERN_URL: upstream = '' } = workshop.variables
    const args = ['proxy', workshop.document, upstream, '--errors', '--host', '127.0.0.1', '--port', port]
    const proxy = spawn(join(cwd, 'node_modules', '.bin', 'prism'), args, { cwd, stdio: 'ignore' })
    try {
      const url = `http://127.0.0.1:${port}`
      await answers(url)
      const variables = { ...workshop.variables, POSTERN_URL: url, POSTERN_UPLOADS: 'none' }
      await openApiTypescript.prove({ ...workshop, folder: cwd, variables })
    } finally {
      proxy.kill()
    }
  },
}

/** Waits at most a minute. Throws a CommandError if nothing answers. */
async function answers(url: string): Promise<void> {
  for (let tries = 0; tries < 300; tries += 1) {
    const response = await fetch(`${url}/api/v1/openapi.json`).catch(() => undefined)
    await response?.body?.cancel()
    if (response?.status === 200) return
    await setTimeout(200)
  }
  throw new CommandError(`nothing answers at ${url}`)
}

/** Starts `postern mcp` as the guide says. `--strict` fails tools whose schemas some agents cannot read. */
const inspector: Tool = {
  name: 'mcp-inspector',
  needs: ['npm'],
  prove: async (workshop) => {
    const cwd = await install(workshop, 'mcp-inspector', { '@modelcontextprotocol/inspector': '2.12.0' })
    const { POSTERN_URL: url = '', POSTERN_KEY: key = '' } = workshop.variables
    const keyFile = join(cwd, 'agent.key')
    await writeFile(keyFile, key, { mode: 0o600 })
    const variables = ['-e', `POSTERN_URL=${url}`, '-e', `POSTERN_API_KEY_FILE=${keyFile}`]
    const server = ['--cwd', repository, 'npm', 'run', '-s', 'postern', '--', 'mcp']
    const ask = async (...method: readonly string[]) =>
      await run(join(cwd, 'node_modules', '.bin', 'mcp-inspector'), ['--cli', ...variables, ...method, ...server], {
        cwd,
      })
    await ask('--strict', '--method', 'tools/list')
    const found = await ask('--method', 'tools/call', '--tool-name', 'listFindings')
    if (!found.includes('Finding 1')) throw new CommandError(`listFindings returned no finding\n${found}`)
  },
}

const repository = join(import.meta.dirname, '..', '..')

export const apiTools: readonly Tool[] = [postman, prism, inspector]
