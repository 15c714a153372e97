// `npm run test:clients`: generates clients with real tools, compiles them and uses them against a running stack. Exit code
// 1: a client failed.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestStack, startTestCluster, startTestStack } from '@postern/local-stack/testing'
import { parseArguments } from '../arguments.ts'
import { apiTools } from './api-tools.ts'
import { CommandError, isAt } from './command.ts'
import { javaScriptTools } from './javascript.ts'
import { otherTools } from './other-languages.ts'
import type { Tool, Workshop } from './tool.ts'

const findings = 5
const tools: readonly Tool[] = [...javaScriptTools, ...apiTools, ...otherTools]

const running: { stop(): Promise<unknown> }[] = []

async function stopAll(): Promise<void> {
  for (const part of running.splice(0).toReversed()) await part.stop()
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stopAll().finally(() => process.exit(1)))
}

async function start(): Promise<TestStack> {
  running.push(await startTestCluster())
  const stack = await startTestStack()
  running.push(stack)
  return stack
}

async function open(stack: TestStack, folder: string): Promise<Workshop> {
  const [url = ''] = stack.gateways
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { label: 'generated clients', scopes: ['*'] })
  for (let index = 1; index <= findings; index += 1) {
    const made = await fetch(`${url}/api/v1/findings`, {
      method: 'POST',
      headers: { authorization: `ApiKey ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ title: `Finding ${index}`, condition: 'Seen.', severity: 'low' }),
    })
    if (made.status !== 201) throw new Error(`a finding could not be created: ${await made.text()}`)
  }
  const document = await download(`${url}/api/v1/openapi.json`, join(folder, 'openapi.json'))
  const swagger = await download(`${url}/api/v1/swagger.json`, join(folder, 'swagger.json'))
  return { folder, document, swagger, variables: { POSTERN_URL: url, POSTERN_KEY: key } }
}

async function download(url: string, file: string): Promise<string> {
  const response = await fetch(url)
  await writeFile(file, await response.text())
  return file
}

type Outcome = 'passed' | 'FAILED' | `skipped: this machine lacks ${string}`

async function prove(tool: Tool, workshop: Workshop): Promise<Outcome> {
  const missing = []
  for (const program of tool.needs) if (!(await isAt(program))) missing.push(program)
  if (missing.length > 0) return `skipped: this machine lacks ${missing.join(' and ')}`
  try {
    await tool.prove(workshop)
    return 'passed'
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    const { POSTERN_KEY: key = '' } = workshop.variables
    process.stderr.write(`${tool.name}: ${error.message.replaceAll(key, '•••••')}\n`)
    return 'FAILED'
  }
}

const names = tools.map(({ name }) => name)
const usage = `Usage: npm run test:clients -- [client…]\nThe clients are ${names.join(', ')}.`
const { positionals: wanted } = parseArguments(usage, {}, names)
const chosen = tools.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
const folder = await mkdtemp(join(tmpdir(), 'postern-clients-'))
try {
  const workshop = await open(await start(), folder)
  for (const tool of chosen) {
    const outcome = await prove(tool, workshop)
    if (outcome === 'FAILED') process.exitCode = 1
    process.stdout.write(`${tool.name}: ${outcome}\n`)
  }
} finally {
  await stopAll()
  await rm(folder, { recursive: true, force: true })
}
