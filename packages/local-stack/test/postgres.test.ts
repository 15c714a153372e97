import { existsSync } from 'node:fs'
import { mkdtemp, readFile, readdir, realpath, rm, stat, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findFreePort } from '../src/ports.ts'
import { commandOf } from '../src/processes.ts'
import type { Postgres } from '../src/postgres.ts'
import { startPostgres } from '../src/postgres.ts'

const cleanUp: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})

/** A home in a folder that only its owner may enter, as `mktemp -d` makes one. */
async function makeClosedHome(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-closed-'))
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
  cleanUp.push(async () => await rm(folder, { recursive: true, force: true }))
  return join(folder, 'home')
}

async function start(home: string, password = 'a-password-for-tests', lines: string[] = []): Promise<Postgres> {
  const log = (line: string): void => void lines.push(line)
  const postgres = await startPostgres({ home, port: await findFreePort(), password, durable: false, log })
  cleanUp.push(async () => {
    await postgres.stop()
    await rm(postgres.folder, { recursive: true, force: true })
  })
  return postgres
}

async function query(postgres: Postgres, text: string): Promise<unknown[]> {
  const client = new Client({ connectionString: postgres.superuserUrl('postgres') })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** They look, and change nothing: one server is enough for all of them. */
describe('PostgreSQL in a folder that is closed to other users, once it runs,', () => {
  let home = ''
  let postgres: Postgres
  let end: () => Promise<void>

  beforeAll(async () => {
    home = await makeClosedHome()
    postgres = await start(home, 'a-password-to-look-for')
    const steps = cleanUp.splice(0).toReversed()
    end = async () => {
      for (const step of steps) await step()
    }
  })
  afterAll(async () => await end())

  test('rejects a wrong password', async () => {
    const url = new URL(postgres.superuserUrl('postgres'))
    url.password = 'not-the-password'
    const client = new Client({ connectionString: url.href })
    await expect(client.connect()).rejects.toMatchObject({ code: '28P01' })
  })

  test('reads and sorts text equally on every machine', async () => {
    const rows = await query(postgres, "select lower('ÀÉ') as text, current_setting('TimeZone') as zone")
    expect(rows).toEqual([{ text: 'àé', zone: 'UTC' }])
  })

  test('shows its password in no log and no process list', async () => {
    const logs = await Promise.all(
      (await readdir(join(home, 'logs'))).map((name) => readFile(join(home, 'logs', name), 'utf8')),
    )
    expect(logs.join('')).toContain('database system is ready')
    expect(logs.join('')).not.toContain('a-password-to-look-for')
    expect(await commandOf(postgres.pid)).not.toContain('a-password-to-look-for')
  })
})

describe('PostgreSQL in a folder that is closed to other users', () => {
  test('refuses to start with secrets that do not belong to its data', async () => {
    const home = await makeClosedHome()
    const postgres = await start(home)
    await postgres.stop()
    await expect(start(home, 'another-password')).rejects.toThrow('differs from the one in the secrets file')
  })

  test('keeps its data over a restart', async () => {
    const home = await makeClosedHome()
    const first = await start(home)
    await query(first, "create table kept as select 'yes' as value")
    await first.stop()
    expect(await query(await start(home), 'select value from kept')).toEqual([{ value: 'yes' }])
  })

  test('starts again after it was killed', async () => {
    const home = await makeClosedHome()
    const first = await start(home)
    first.kill('SIGKILL')
    await first.exited
    expect(await query(await start(home), 'select 1 as up')).toEqual([{ up: 1 }])
  })

  test('is reported ready even on a machine where each step of the connection takes most of a second', async () => {
    const home = await makeClosedHome()
    const first = await start(home)
    await first.stop()
    let isStarting = true
    const turn = (): void => {
      const until = performance.now() + 700
      // From when the server is there: before it, nothing waits for its answers.
      if (existsSync(join(first.folder, 'data', 'postmaster.pid'))) while (performance.now() < until);
      if (isStarting) setTimeout(turn)
    }
    setTimeout(turn)
    const second = await start(home).finally(() => {
      isStarting = false
    })
    expect(await query(second, 'select 1 as up')).toEqual([{ up: 1 }])
  })

  test('moves a half-written data directory away, reports that, and starts with a new one', async () => {
    const home = await makeClosedHome()
    const first = await start(home)
    await first.stop()
    await unlink(join(first.folder, 'data', 'global', 'pg_control'))
    const lines: string[] = []
    const second = await start(home, undefined, lines)
    expect(await query(second, 'select 1 as up')).toEqual([{ up: 1 }])
    expect(lines).toEqual([
      expect.stringMatching(/not a whole data directory \(no global\/pg_control\): kept as .*broken/),
    ])
    expect(await readdir(second.folder)).toEqual(['data', expect.stringMatching(/^data\.broken-/)])
  })

  test('ends the server that an earlier start left behind', async () => {
    const home = await makeClosedHome()
    const orphan = await start(home)
    const lines: string[] = []
    const postgres = await start(home, undefined, lines)
    expect(orphan.running).toBe(false)
    expect(await query(postgres, 'select 1 as up')).toEqual([{ up: 1 }])
    expect(lines).toEqual([`ending the PostgreSQL that an earlier start left behind (process ${orphan.pid})`])
  })
})

test('PostgreSQL on a port of another PostgreSQL ends with the reason, and not with a wrong password', async () => {
  const first = await start(await makeClosedHome(), 'the-password-of-one')
  const home = await makeClosedHome()
  await expect(
    startPostgres({ home, port: first.port, password: 'the-password-of-another', durable: false }),
  ).rejects.toThrow(/ended during its start[^]*Address already in use/)
  await rm(await realpath(join(home, 'postgres')), { recursive: true })
})
