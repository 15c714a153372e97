import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, readlink, realpath, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Change, changeKinds, changePaths, changeSchema, logEntrySchema } from '@postern/contracts'
import { verifyExport } from '@postern/log-chain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { repositoryRoot } from '../src/paths.ts'
import { findFreePort, isPortFree, loopback } from '../src/ports.ts'
import { isAlive } from '../src/processes.ts'
import { demoSchema } from '../src/seed.ts'
import { patienceMs } from '../src/testing/patience.ts'
import { createTestBrowser } from '../src/testing/test-browser.ts'

const script = join(repositoryRoot, 'packages', 'local-stack', 'src', 'start.ts')

interface Run {
  readonly pid: number
  readonly output: () => string
  readonly ended: Promise<number | null>
  readonly kill: (signal: NodeJS.Signals) => void
}

function start(env: Record<string, string>): Run {
  const child = spawn(process.execPath, ['--conditions=@postern/source', script], {
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      POSTERN_MAX_EVENT_LOOP_DELAY_MS: patienceMs,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => (output += String(chunk)))
  child.stderr.on('data', (chunk) => (output += String(chunk)))
  const { promise, resolve } = Promise.withResolvers<number | null>()
  child.once('close', (code) => resolve(code))
  return { pid: child.pid ?? 0, output: () => output, ended: promise, kill: (signal) => void child.kill(signal) }
}

/** Runs a command in the clone, and gives what it prints. */
async function runInClone(command: string, env: Record<string, string>): Promise<string> {
  const options = { cwd: repositoryRoot, env: { ...process.env, ...env } }
  return (await promisify(execFile)('/bin/sh', ['-c', `set -e\n${command}`], options)).stdout
}

/** Waits for the line that says that all is up; fails with what was printed when the run ends before it. */
async function untilReady(run: Run): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const look = setInterval(() => /^postern ready /m.test(run.output()) && resolve(), 20)
  const ended = run.ended.then((code) => {
    throw new Error(`ended with ${code}: ${run.output()}`)
  })
  try {
    await Promise.race([promise, ended])
  } finally {
    clearInterval(look)
  }
}

/** Numbers of all processes whose command or open files name the home. */
async function processesOf(home: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || pid === process.pid) continue
    const output = await readlink(`/proc/${pid}/fd/1`).catch(() => '')
    if (output.startsWith(join(home, 'logs'))) found.push(pid)
  }
  return found
}

async function untilAllGone(pids: readonly number[]): Promise<void> {
  while (pids.some(isAlive)) await delay(50)
}

interface Reader {
  readonly get: (target: string) => Promise<{ status: number; json: Record<string, unknown> }>
  readonly list: (target: string) => Promise<Record<string, unknown>[]>
  /** How many the tenant has, of those that a filter leaves, such as `&actor=demo`. */
  readonly count: (kind: string, filter?: string) => Promise<number>
  /** Fails unless the answer is 200. */
  readonly text: (target: string, accept: string) => Promise<string>
  /** The change feed, page after page, from what is kept to its end. */
  readonly changes: () => AsyncGenerator<Change>
}

/** Reads the API with a key. */
function readerOf(port: number, key: string | undefined): Reader {
  // Again, where the gateway has no lease for a moment, as on a machine that is busy enough.
  const call = async (target: string, headers: Record<string, string> = {}): Promise<Response> => {
    for (;;) {
      const answer = await fetch(`http://${loopback}:${port}/api/v1/${target}`, {
        headers: { authorization: `ApiKey ${key}`, ...headers },
      })
      if (answer.status !== 503 || !(await answer.clone().text()).includes('auth_unavailable')) return answer
    }
  }
  return {
    get: async (target) => {
      const answer = await call(target)
      return { status: answer.status, json: JSON.parse(await answer.text()) }
    },
    list: async (target) => JSON.parse(await (await call(target)).text()),
    count: async (kind, filter = '') =>
      Number((await call(`${kind}?limit=1&count=true${filter}`)).headers.get('x-total-count')),
    text: async (target, accept) => {
      const answer = await call(target, { accept })
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`${target} was answered ${answer.status} ${text}`)
      return text
    },
    changes: async function* follow() {
      for (let target = 'changes?limit=1000'; ;) {
        const answer = await call(target)
        const page = z.array(changeSchema).parse(await answer.json())
        yield* page
        if (page.length === 0) return
        target = /^<\/api\/v1\/([^>]+)>; rel="next"$/.exec(answer.headers.get('link') ?? '')?.[1] ?? ''
      }
    },
  }
}

/**
 * How many of each kind of resource a tenant has; of entries of the log, those of the demo: one more comes at midnight (UTC), when the
 * acceptance ends that was until the day of the start.
 */
async function countsOf({ count }: Reader): Promise<number[]> {
  const kinds = [
    'findings',
    'recommendations',
    'action-plans',
    'remediation-log',
    'entities',
    'people',
    'test-procedures',
  ]
  return await Promise.all(kinds.map((kind) => count(kind, kind === 'remediation-log' ? '&actor=demo' : '')))
}

const readDemo = async (home: string) => demoSchema.parse(JSON.parse(await readFile(join(home, 'demo.json'), 'utf8')))

/** Empty for a process that has ended meanwhile, as sessions of the database do. */
async function readOfProcess(pid: number, name: 'cmdline' | 'environ'): Promise<string> {
  try {
    return await readFile(`/proc/${pid}/${name}`, 'utf8')
  } catch (error) {
    if (error instanceof Error && /ENOENT|ESRCH/.test(error.message)) return ''
    throw error
  }
}

describe('npm start', { timeout: 180_000 }, () => {
  let home = ''
  let port = 0
  let run: Run
  let env: Record<string, string>

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'postern-start-'))
    port = await findFreePort()
    env = { POSTERN_HOME: home, POSTERN_PORT: String(port) }
    run = start(env)
    await untilReady(run)
  }, 180_000)

  afterAll(async () => {
    run.kill('SIGTERM')
    await run.ended
    await rm(await realpath(join(home, 'postgres')), { recursive: true, force: true })
    await rm(home, { recursive: true, force: true })
  })

  /** Runs a command of the README where somebody would who stands in the clone. */
  async function shell(command: string): Promise<string> {
    const here = command
      .replaceAll('http://127.0.0.1:8080', `http://${loopback}:${port}`)
      .replaceAll('.postern/demo.json', join(home, 'demo.json'))
    return await runInClone(here, env)
  }

  test('refuses a number of gateways that is none, naming the variable', async () => {
    const other = start({ ...env, POSTERN_GATEWAYS: 'many' })
    expect(await other.ended).toBe(1)
    expect(other.output()).toBe('postern: POSTERN_GATEWAYS must be a whole number from 1 to 64\n')
  })

  test('beside a running one says in one line which process to stop, and disturbs nothing', async () => {
    const second = start(env)
    expect(await second.ended).toBe(1)
    expect(second.output()).toBe(
      `postern: postern already runs from ${home} (process ${run.pid}): stop it first, or set POSTERN_HOME to another folder\n`,
    )
    expect((await fetch(`http://${loopback}:${port}/api/v1/findings`)).status).toBe(401)
  })

  test('says in one line that its port is taken, and by which variable to choose another', async () => {
    const takenPort = await findFreePort()
    const taken = createServer().listen(takenPort, loopback)
    await once(taken, 'listening')
    const otherHome = await mkdtemp(join(tmpdir(), 'postern-start-'))
    const other = start({ POSTERN_HOME: otherHome, POSTERN_PORT: String(takenPort) })
    expect(await other.ended).toBe(1)
    expect(other.output()).toBe(
      `postern: port ${takenPort} (gateway) is in use on 127.0.0.1: stop the other program, or set POSTERN_PORT to a free port\n`,
    )
    taken.close()
    await rm(otherHome, { recursive: true })
  })

  test('prints where it is, alone on a line, and a curl that works as printed', async () => {
    expect(run.output().split('\n')).toContain(`postern ready http://${loopback}:${port}`)
    const command =
      run
        .output()
        .split('\n')
        .find((line) => line.trim().startsWith('curl ')) ?? ''
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command])
    expect(JSON.parse(stdout)).toHaveLength(3)
  })

  test('does what the README says, word for word: reads with a key of the demo, makes one, and revokes it', async () => {
    const readme = await readFile(join(repositoryRoot, 'README.md'), 'utf8')
    const blocks = [...readme.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = '']) => block)
    const [reading, revoking] = blocks.filter((block) => block.includes('curl '))
    expect(JSON.parse(await shell(reading ?? ''))).toHaveLength(3)

    const [create = '', use = '', revoke = '', useAgain = ''] = (revoking ?? '').trimEnd().split('\n')
    const made = await shell(create)
    const [key = ''] = /postern_[0-9A-Za-z]{49}/.exec(made) ?? []
    const [id = ''] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(made) ?? []
    const filledIn = (command: string): string => command.replace('<the key>', key).replace('<the id>', id)
    expect(JSON.parse(await shell(filledIn(use)))).toMatchObject({ label: 'BI export', scopes: ['read:findings'] })
    await shell(filledIn(revoke))
    expect(JSON.parse(await shell(filledIn(useAgain)))).toMatchObject({ status: 401, code: 'key_revoked' })
  })

  test('has connectors as either tenant would: one waits for approval, one has rows to mend', async () => {
    const { tenants } = await readDemo(home)
    const typesOf = async (slug: string): Promise<unknown[]> => {
      const connectors = await readerOf(port, tenants[slug]?.keys['admin:sync']).list('connectors')
      return connectors.map(({ type, dataset, state }) => [type, dataset, state])
    }
    expect(await typesOf('harbourline')).toEqual(
      expect.arrayContaining([
        ['ldap', 'org_structure', 'paused'],
        ['sql', 'auditable_entities', 'paused'],
        ['csv', 'test_procedures', 'active'],
      ]),
    )
    expect(await typesOf('korvex')).toEqual(
      expect.arrayContaining([
        ['scim_inbound', 'people', 'active'],
        ['http_json', 'org_structure', 'paused'],
        ['csv', 'org_structure', 'active'],
      ]),
    )
    const { list } = readerOf(port, tenants['harbourline']?.keys['admin:sync'])
    expect(await list('sync-runs?status=needs_approval')).toMatchObject([{ counts: { deactivated: 244 } }])
    const korvex = readerOf(port, tenants['korvex']?.keys['admin:sync'])
    expect(await korvex.list('sync-runs?status=partial')).toMatchObject([{ counts: { valid: 31, invalid: 7 } }])
  })

  test('writes a key for each scope of both demo tenants to a file that only its owner may read', async () => {
    const demo = await readDemo(home)
    expect((await stat(join(home, 'demo.json'))).mode & 0o777).toBe(0o600)
    expect(demo.gateways).toEqual([`http://${loopback}:${port}`])
    expect(Object.keys(demo.tenants)).toEqual(['harbourline', 'korvex'])
    const scopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync', '*']
    for (const tenant of Object.values(demo.tenants)) expect(Object.keys(tenant.keys)).toEqual(scopes)
  })

  test('gives each demo tenant exactly its own rows, although both go by the same names', async () => {
    const { tenants } = await readDemo(home)
    const harbourline = readerOf(port, tenants['harbourline']?.keys['*'])
    const korvex = readerOf(port, tenants['korvex']?.keys['*'])
    expect(await countsOf(harbourline)).toEqual([320, 510, 640, 5200, 240, 1900, 420])
    expect(await countsOf(korvex)).toEqual([190, 300, 370, 2900, 150, 3400, 260])

    const [first] = await harbourline.list('findings?q=Privileged access not recertified in core banking')
    const [second] = await korvex.list('findings?q=OT engineering workstations')
    expect(first).toMatchObject({ severity: 'critical', status: 'pending_validation', is_repeat: true })
    expect(second).toMatchObject({ severity: 'high', status: 'risk_accepted' })
    for (const name of [
      'findings/ext:AUD-0042',
      'entities/ext:ENT-0042',
      'test-procedures/ext:TP-0042',
      `findings/ref:${second?.['reference']}`,
    ]) {
      const [one, other] = [await harbourline.get(name), await korvex.get(name)]
      expect([one.status, other.status]).toEqual([200, 200])
      expect(one.json['id']).not.toBe(other.json['id'])
      const kind = name.slice(0, name.indexOf('/'))
      expect((await korvex.get(`${kind}/${one.json['id']}`)).status).toBe(404)
      expect((await harbourline.get(`${kind}/${other.json['id']}`)).status).toBe(404)
    }
  })

  test('has a remediation log that verifies, and does not once a word of it is changed', async () => {
    const { tenants } = await readDemo(home)
    const { text, get } = readerOf(port, tenants['harbourline']?.keys['read:findings'])
    const log = (await text('remediation-log', 'application/x-ndjson')).trimEnd().split('\n')
    expect(await verifyExport(log)).toMatchObject({ isIntact: true, entries: log.length })
    // Another one comes when a day ends.
    const actors = log.map((line) => logEntrySchema.parse(JSON.parse(line)).actor.id)
    expect(actors.filter((id) => id === 'demo')).toHaveLength(5200)
    const [finding] = z.array(z.object({ id: z.string() })).parse((await get('findings?limit=1')).json)
    expect((await get(`findings/${finding?.id}/log/verify`)).json).toMatchObject({ is_intact: true })
    const tampered = log.map((line) => line.replace('Spoke with the owner: on track.', 'Spoke with the owner: done.'))
    expect((await verifyExport(tampered)).isIntact).toBe(false)
  })

  test.each([
    ['read:findings', 'korvex'],
    ['read:universe', 'harbourline'],
  ] as const)(
    'tells a key with %s of nothing in its change feed that it cannot read where the document says: %s',
    async (scope, slug) => {
      const { tenants } = await readDemo(home)
      const { changes, text } = readerOf(port, tenants[slug]?.keys[scope])
      // Many changes of one resource are read at one place.
      const places = new Map<string, Change>()
      for await (const change of changes())
        places.set(changePaths[change.kind].replace('/api/v1/', '').replace('{id}', change.id), change)
      const kinds = new Set([...places.values()].map(({ kind }) => kind))
      expect([...kinds].toSorted()).toEqual(
        Object.entries(changeKinds)
          .flatMap(([kind, needed]) => (needed === scope ? [kind] : []))
          .toSorted(),
      )
      const rest = places.entries()
      const read = async (): Promise<void> => {
        for (const [place, { kind, id }] of rest) {
          const answer = await text(kind === 'log_entry' ? `${place}?limit=1` : place, 'application/json')
          // A log is a list, of entries that name their finding.
          expect([place, answer.includes(`"${kind === 'log_entry' ? 'finding_id' : 'id'}":"${id}"`)]).toEqual([
            place,
            true,
          ])
        }
      }
      await Promise.all([read(), read(), read(), read()])
    },
  )

  test('prints where the console is, and people of both demo tenants can sign in there', async () => {
    const [, url = ''] = /^The console: (http:\S+) /m.exec(run.output()) ?? []
    const { tenants } = await readDemo(home)
    for (const slug of ['harbourline', 'korvex']) {
      const browser = createTestBrowser()
      expect((await browser.signIn(url, `${slug}-admin`)).status).toBe(200)
      const { text } = await browser.send(`${url}/auth/session`)
      expect(JSON.parse(text)).toMatchObject({ tenant: { id: tenants[slug]?.id }, roles: ['admin'] })
    }
  })

  test('keeps secrets out of every log and every process list', async () => {
    const { tenants } = await readDemo(home)
    const secrets = Object.values(tenants).flatMap((tenant) => Object.values(tenant.keys))
    for (const name of await readdir(join(home, 'secrets'))) {
      if (name.endsWith('.pem')) continue
      secrets.push((await readFile(join(home, 'secrets', name), 'utf8')).trim().replace(/^[^:]*:/, ''))
    }
    const pids = await processesOf(home)
    expect(pids.length).toBeGreaterThanOrEqual(8)
    const texts = await Promise.all([
      ...(await readdir(join(home, 'logs'))).map((name) => readFile(join(home, 'logs', name), 'utf8')),
      ...pids.flatMap((pid) => [readOfProcess(pid, 'cmdline'), readOfProcess(pid, 'environ')]),
    ])
    expect(texts.filter((text) => text !== '').length).toBeGreaterThanOrEqual(16)
    const all = texts.join('\n')
    expect(all).toContain('"listening"')
    expect(secrets.filter((secret) => secret !== '' && all.includes(secret)).length).toBe(0)
  })

  test('stopped by a signal leaves no process, and started again has the same keys and data', async () => {
    const before = await readDemo(home)
    const pids = await processesOf(home)
    run.kill('SIGINT')
    expect(await run.ended).toBe(0)
    expect(pids.filter(isAlive)).toEqual([])
    expect(await isPortFree(port)).toBe(true)
    run = start(env)
    await untilReady(run)
    expect(await readDemo(home)).toEqual(before)
    const reader = readerOf(port, before.tenants['korvex']?.keys['*'])
    expect((await reader.get('findings')).status).toBe(200)
    expect(await reader.count('findings')).toBe(190)
  })

  test('killed outright leaves no process either, and starts again at once', async () => {
    const pids = await processesOf(home)
    run.kill('SIGKILL')
    await run.ended
    run = start(env)
    await untilReady(run)
    await untilAllGone(pids)
    expect((await fetch(`http://${loopback}:${port}/api/v1/findings`)).status).toBe(401)
  })

  test('stops everything and says why when a service dies', async () => {
    const pids = await processesOf(home)
    const logs: [number, string][] = await Promise.all(
      pids.map(async (pid): Promise<[number, string]> => [pid, await readlink(`/proc/${pid}/fd/1`)]),
    )
    const [sync] = logs.find(([, log]) => log.endsWith('sync.log')) ?? [0]
    process.kill(sync, 'SIGKILL')
    expect(await run.ended).toBe(1)
    expect(run.output()).toMatch(/^postern: sync ended unexpectedly \(SIGKILL\)/m)
    expect(pids.filter(isAlive)).toEqual([])
  })
})
