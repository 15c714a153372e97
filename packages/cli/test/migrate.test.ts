import { randomBytes } from 'node:crypto'
import { type TestDatabase, createTestDatabase, randomRing } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../src/run.ts'

let database: TestDatabase
let env: Record<string, string>

const passwordOf = (url: string): string => decodeURIComponent(new URL(url).password)

beforeAll(async () => {
  database = await createTestDatabase()
  const name = `migrate_${randomBytes(6).toString('hex')}`
  // The cluster is shared with other tests: its roles keep the passwords that they have.
  env = {
    POSTERN_SUPERUSER_URL: database.url('superuser'),
    POSTERN_MIGRATOR_URL: Object.assign(new URL(database.url('migrator')), { pathname: `/${name}` }).href,
    POSTERN_ASSERTION_KEYS: randomRing('first'),
    POSTERN_PASSWORD_KEYS: passwordOf(database.url('keys')),
    POSTERN_PASSWORD_FINDINGS: passwordOf(database.url('findings')),
    POSTERN_PASSWORD_UNIVERSE: passwordOf(database.url('universe')),
    POSTERN_PASSWORD_EVIDENCE: passwordOf(database.url('evidence')),
    POSTERN_PASSWORD_SYNC: passwordOf(database.url('sync')),
  }
})
afterAll(async () => await database.drop())

/** The same database, behind a server that is not there. */
function among(url = ''): string {
  return `${url.replace('@', '@127.0.0.1:1,')}?target_session_attrs=read-write`
}

async function postern(args: readonly string[], settings: Record<string, string> = env) {
  const texts = { out: '', err: '' }
  const code = await run(args, settings, {
    out: (text) => (texts.out += text),
    err: (text) => (texts.err += text),
  })
  return { code, ...texts }
}

describe('postern migrate', () => {
  test.each(['POSTERN_MIGRATOR_URL', 'POSTERN_ASSERTION_KEYS', 'POSTERN_PASSWORD_SYNC'])(
    'requires %s and changes nothing without it',
    async (name) => {
      const { [name]: _left, ...rest } = env
      expect(await postern(['migrate'], rest)).toEqual({
        code: 2,
        out: '',
        err: `postern: set ${name} or ${name}_FILE\n`,
      })
    },
  )

  test('reports an unavailable PostgreSQL without its password', async () => {
    const settings = { ...env, POSTERN_SUPERUSER_URL: 'postgres://postgres:do-not-show-me@127.0.0.1:1/postgres' }
    const { code, out, err } = await postern(['migrate'], settings)
    expect(code).toBe(1)
    expect(err).toContain('the database could not be updated')
    expect(out + err).not.toContain('do-not-show-me')
  })

  test('says which rights are missing if the administrator may not create roles', async () => {
    const { code, err } = await postern(['migrate'], { ...env, POSTERN_SUPERUSER_URL: database.url('findings') })
    expect(code).toBe(1)
    expect(err).toContain('permission denied')
    expect(err).toContain('CREATEROLE and CREATEDB')
  })

  test.each([
    ['mysql://me:do-not-show-me@one/db', 'must be a URL that begins with postgres:// or postgresql://'],
    ['postgres://me:do-not-show-me@one,/db', 'must name each host as host or host:port'],
    [
      'postgres://me:do-not-show-me@one,two/db?target_session_attrs=standby',
      'must have target_session_attrs=read-write, primary or any, because Postern writes to the database',
    ],
  ])('rejects %s and says what it must be', async (url, message) => {
    const { code, out, err } = await postern(['migrate'], { ...env, POSTERN_MIGRATOR_URL: url })
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(`postern: POSTERN_MIGRATOR_URL ${message}`)
    expect(err).not.toContain('do-not-show-me')
  })

  test('finds the server that answers among several', async () => {
    const { POSTERN_SUPERUSER_URL: superuser, POSTERN_MIGRATOR_URL: migrator } = env
    const other = migrator?.replace(/\/migrate_/, '/migrate_several_')
    const settings = { ...env, POSTERN_SUPERUSER_URL: among(superuser), POSTERN_MIGRATOR_URL: among(other) }
    const { code, out, err } = await postern(['migrate'], settings)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('applied tenancy/000001_')
    expect(out).toContain('the database is up to date')
  })

  test('prepares a new database, even if two processes start at once', async () => {
    const runs = await Promise.all([postern(['migrate', '--json']), postern(['migrate', '--json'])])
    expect(runs.map(({ err }) => err)).toEqual(['', ''])
    const applied = runs.flatMap(({ out }): string[] => JSON.parse(out).applied)
    expect(new Set(applied).size).toBe(applied.length)
    for (const schema of ['tenancy', 'keys', 'universe', 'findings', 'evidence', 'sync']) {
      expect(applied.some((name) => name.startsWith(`${schema}/000001_`))).toBe(true)
    }
  })

  test('changes nothing the second time', async () => {
    expect(await postern(['migrate'])).toEqual({ code: 0, out: 'the database is up to date\n', err: '' })
  })

  test('retires assertion keys that left the ring on request, once', async () => {
    const next = { ...env, POSTERN_ASSERTION_KEYS: randomRing('second') }
    expect(await postern(['migrate'], next)).toMatchObject({ code: 0, out: 'the database is up to date\n' })
    const retired = await postern(['migrate', '--retire-assertion-keys', '--json'], next)
    expect(JSON.parse(retired.out)).toEqual({ applied: [], retired: ['first'] })
    const again = await postern(['migrate', '--retire-assertion-keys', '--json'], next)
    expect(JSON.parse(again.out)).toEqual({ applied: [], retired: [] })
  })

  test('prints the SQL for roles and database, without a password in clear text and without any connection', async () => {
    const { POSTERN_SUPERUSER_URL: _left, ...rest } = env
    const { code, out, err } = await postern(['migrate', '--print-roles'], rest)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('create role "postern_owner" nologin')
    expect(out).toContain('alter role "postern_sync" password \'SCRAM-SHA-256$')
    expect(out).toMatch(/create database "migrate_[0-9a-f]{12}" owner "postern_owner"/)
    for (const name of ['KEYS', 'FINDINGS', 'UNIVERSE', 'EVIDENCE', 'SYNC']) {
      expect(out).not.toContain(env[`POSTERN_PASSWORD_${name}`])
    }
    expect(out).not.toContain(passwordOf(env['POSTERN_MIGRATOR_URL'] ?? ''))
  })

  test('prints a line to complete for each login whose password is not set', async () => {
    const { code, out } = await postern(['migrate', '--print-roles'], {})
    expect(code).toBe(0)
    expect(out).toContain('create database "postern"')
    expect(out).toContain('-- Set the password of postern_migrator')
    expect(out).not.toContain('SCRAM-SHA-256$')
  })
})
