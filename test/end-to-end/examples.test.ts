import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { type TestStack, makeTestFolder, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

const run = promisify(execFile)
const examples = join(import.meta.dirname, '..', '..', 'examples')

let stack: TestStack
let gateway = ''
let key = ''

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => await stack.stop())

/** A tenant of its own with overdue findings. */
async function startTenant(titles: readonly string[]): Promise<void> {
  const tenant = await stack.createTenant()
  const created = await stack.createKey(tenant, { label: 'examples', scopes: ['*'] })
  key = created.key
  const entities = [{ external_id: 'cards', name: 'Cards', type: 'process' }]
  const pushed = await send(gateway, '/api/v1/sync/entities', { key, method: 'POST', body: entities })
  expect(pushed.status, pushed.text).toBeLessThan(300)
  for (const title of titles) await documentOverdue(title)
}

async function documentOverdue(title: string): Promise<void> {
  const { json } = await send(gateway, '/api/v1/entities/ext:cards', { key })
  const body = {
    title,
    condition: 'Three of twelve reviews are missing.',
    criteria: 'Reviews are monthly.',
    cause: 'Nobody is responsible.',
    consequence: 'Access stays open.',
    severity: 'high',
    status: 'open',
    target_date: '2026-01-31',
    entity_ids: [z.object({ id: z.string() }).parse(json).id],
    owner: { email: 'ada.lund@harbourline.example' },
  }
  const { status, text } = await send(gateway, '/api/v1/findings', { key, method: 'POST', body })
  expect(status, text).toBe(201)
}

async function runExample(program: string, name: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, POSTERN_URL: gateway, POSTERN_KEY: key }
  const { stdout } = await run(program, [join(examples, name), ...args], { env })
  expect(stdout).not.toContain(key)
  return stdout
}

/** Kills the program when it has stored its first page, of several. */
async function killAtFirstPage(name: string, ...args: string[]): Promise<void> {
  const env = { ...process.env, POSTERN_URL: gateway, POSTERN_KEY: key }
  const child = spawn('python3', [join(examples, name), ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.once('data', () => child.kill('SIGKILL'))
  await once(child, 'close')
  expect(child.signalCode).toBe('SIGKILL')
}

async function countLog(): Promise<number> {
  const { json } = await send(gateway, '/api/v1/remediation-log?limit=1000', { key })
  return z.array(z.unknown()).parse(json).length
}

async function rename(title: string, to: string): Promise<void> {
  const { json } = await send(gateway, `/api/v1/findings?q=${encodeURIComponent(title)}`, { key })
  const [found] = z.array(z.object({ id: z.string() })).parse(json)
  const change = { key, method: 'PATCH', body: { title: to }, headers: { 'if-match': '*' } }
  const { status, text } = await send(gateway, `/api/v1/findings/${found?.id}`, change)
  expect(status, text).toBe(200)
}

function lacks(program: string): boolean {
  const isMissing = spawnSync(program, ['--version'], { stdio: 'ignore' }).status !== 0
  if (isMissing) process.stdout.write(`SKIPPED examples: this machine lacks ${program}\n`)
  return isMissing
}

const mirrorSchema = z.object({ mark: z.string(), findings: z.record(z.string(), z.object({ title: z.string() })) })

async function titlesIn(file: string): Promise<string[]> {
  const { findings } = mirrorSchema.parse(JSON.parse(await readFile(file, 'utf8')))
  return Object.values(findings)
    .map(({ title }) => title)
    .toSorted()
}

test('mirror-findings.mjs reads all findings first, and then what has changed', async () => {
  await startTenant(['Shared accounts', 'No backup'])
  const file = join(await makeTestFolder('examples'), 'findings.json')
  expect(await runExample(process.execPath, 'mirror-findings.mjs', file)).toContain('2 findings')
  await documentOverdue('Late reviews')
  expect(await runExample(process.execPath, 'mirror-findings.mjs', file)).toContain('3 findings')
  expect(await titlesIn(file)).toEqual(['Late reviews', 'No backup', 'Shared accounts'])
})

test('mirror-findings.mjs reports why the API rejects it, and leaves the file unchanged', async () => {
  await startTenant(['Shared accounts'])
  const file = join(await makeTestFolder('examples'), 'findings.json')
  await runExample(process.execPath, 'mirror-findings.mjs', file)
  const before = await readFile(file, 'utf8')
  key = `${key.slice(0, -6)}AAAAAA`
  await expect(runExample(process.execPath, 'mirror-findings.mjs', file)).rejects.toThrow(/request \w/)
  expect(await readFile(file, 'utf8')).toBe(before)
})

describe.skipIf(lacks('python3'))('with Python', () => {
  test('overdue-findings.py writes a row for each overdue finding', async () => {
    await startTenant(['Shared accounts', 'No backup, "none"'])
    const lines = (await runExample('python3', 'overdue-findings.py')).trimEnd().split(/\r?\n/)
    expect(lines[0]).toBe('reference,severity,target_date,title')
    expect(
      lines
        .slice(1)
        .map((line) => line.replace(/^[^,]+,/, ''))
        .toSorted(),
    ).toEqual(['high,2026-01-31,"No backup, ""none"""', 'high,2026-01-31,Shared accounts'])
  })

  test('mirror-to-sqlite.py continues after a kill, and then reads what has changed', async () => {
    await startTenant(['Shared accounts', 'No backup', 'Late reviews'])
    const file = join(await makeTestFolder('examples'), 'postern.db')
    await killAtFirstPage('mirror-to-sqlite.py', file, '1')
    const first = await runExample('python3', 'mirror-to-sqlite.py', file, '1')
    expect(first).toContain('3 in findings\n0 in action_plans\n1 in entities\n')
    expect(first).not.toContain('findings: 1 rows\nfindings: 1 rows\nfindings: 1 rows\n')
    expect(Number(/(\d+) in log/.exec(first)?.[1])).toBe(await countLog())

    await documentOverdue('Open ports')
    await rename('Shared accounts', 'Personal accounts')
    const second = await runExample('python3', 'mirror-to-sqlite.py', file)
    expect(second).toContain('4 in findings\n')
    expect(second).not.toContain('rows')
    expect(Number(/(\d+) in log/.exec(second)?.[1])).toBe(await countLog())
    const titles = new DatabaseSync(file, { readOnly: true }).prepare('select title from findings order by title').all()
    expect(titles.map(({ title }) => title)).toEqual(['Late reviews', 'No backup', 'Open ports', 'Personal accounts'])
  })
})

test('findings.pq requests a list with the columns that it names', async () => {
  await startTenant(['Shared accounts'])
  const query = await readFile(join(examples, 'findings.pq'), 'utf8')
  const named = (name: string): string => new RegExp(`${name} = "([^"]+)"`).exec(query)?.[1] ?? ''
  const path = `/${named('RelativePath')}?format=${named('format')}&fields=${named('fields')}`
  const [header = '', row = ''] = (await send(gateway, path, { key })).text.split('\r\n')
  expect(row).toContain('Shared accounts')
  const columns = [...query.matchAll(/[{,] ?\{?"([a-z_]+)"/g)].map(([, column]) => column)
  expect(columns.length).toBeGreaterThan(4)
  expect(header.split(',')).toEqual(expect.arrayContaining([...columns, 'owner_name', 'owner_email']))
})

describe.skipIf(lacks('bash') || lacks('curl') || lacks('sha256sum'))('with bash and curl', () => {
  test('upload-folder.sh uploads each file once and stores its receipt, also for two files with the same content', async () => {
    await startTenant([])
    const folder = await makeTestFolder('examples')
    await writeFile(join(folder, 'access review.csv'), 'user,role\nada,admin\n')
    await writeFile(join(folder, 'backup.txt'), 'done\n')
    await writeFile(join(folder, 'restore.txt'), 'done\n')
    const uploaded = await runExample('bash', 'upload-folder.sh', folder, '2026-09-30')
    expect(uploaded.match(/: uploaded$/gm)).toHaveLength(3)
    expect(await runExample('bash', 'upload-folder.sh', folder, '2026-09-30')).toBe('')
    expect((await readdir(folder)).toSorted()).toEqual([
      'access review.csv',
      'access review.csv.receipt.json',
      'backup.txt',
      'backup.txt.receipt.json',
      'restore.txt',
      'restore.txt.receipt.json',
    ])
  })
})
