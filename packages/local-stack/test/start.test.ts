import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, readlink, realpath, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Change, changeKinds, changePaths, logEntrySchema } from '@postern/contracts'
import { verifyExport } from '@postern/log-chain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { repositoryRoot } from '../src/paths.ts'
import { findFreePort, isPortFree, loopback } from '../src/ports.ts'
import { isAlive } from '../src/processes.ts'
import { createTestBrowser } from '../src/testing/test-browser.ts'
import {
  type Run,
  countsOf,
  processesOf,
  readDemo,
  readOfProcess,
  readerOf,
  runInClone,
  start,
  untilAllGone,
  untilReady,
} from './start-support.ts'

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

  /** Runs a command of the README in the clone. */
  async function shell(command: string): Promise<string> {
    const here = command
      .replaceAll('http://127.0.0.1:8080', `http://${loopback}:${port}`)
      .replaceAll('.postern/demo.json', join(home, 'demo.json'))
    return await runInClone(here, env)
  }

  test('rejects an invalid number of gateways and names the variable', async () => {
    const other = start({ ...env, POSTERN_GATEWAYS: 'many' })
    expect(await other.ended).toBe(1)
    expect(other.output()).toBe('postern: POSTERN_GATEWAYS must be a whole number from 1 to 64\n')
  })

  test('beside a running stack names the process to stop in one line, and does not disturb the stack', async () => {
    const second = start(env)
    expect(await second.ended).toBe(1)
    expect(second.output()).toBe(
      `postern: postern already runs from ${home} (process ${run.pid}): stop it first, or set POSTERN_HOME to another folder\n`,
    )
    expect((await fetch(`http://${loopback}:${port}/api/v1/findings`)).status).toBe(401)
  })

  test('reports a taken port in one line, with the variable that sets another', async () => {
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

  test('prints its address on its own line, and a curl command that works as printed', async () => {
    expect(run.output().split('\n')).toContain(`postern ready http://${loopback}:${port}`)
    const command =
      run
        .output()
        .split('\n')
        .find((line) => line.trim().startsWith('curl ')) ?? ''
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command])
    expect(JSON.parse(stdout)).toHaveLength(3)
  })

  test('does what the README says: reads with a key of the demo, creates a key, and revokes it', async () => {
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

  test('has a connector that waits for approval and one with invalid rows', async () => {
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

  test('has a remediation log that can be verified until one word changes', async () => {
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

  test('stops everything and reports the cause if a service dies', async () => {
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
