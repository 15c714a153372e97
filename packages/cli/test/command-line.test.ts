import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findFreePort, randomRing } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../src/run.ts'
import { type CommandWorld, openCommandWorld } from './command-world.ts'

let stack: CommandWorld['stack']
let tenant: CommandWorld['tenant']
let other: CommandWorld['other']
let postern: CommandWorld['postern']
let withDefaults: CommandWorld['withDefaults']
let createKey: CommandWorld['createKey']

let world: CommandWorld
beforeAll(async () => {
  world = await openCommandWorld()
  ;({ stack, tenant, other, postern, withDefaults, createKey } = world)
})
afterAll(async () => await world.stack.stop())

test('the check of the sign-in file names the tenants that do not exist', async () => {
  const file = { providers: [{ name: 'Staff', issuer: 'https://sso.example', tenant: { map: { a: tenant.slug } } }] }
  const check = async (otherwise: string) => {
    const [staff] = file.providers
    const providers = [{ ...staff, tenant: { ...staff?.tenant, otherwise } }]
    const token = join(stack.home, 'token.txt')
    await writeFile(token, 'no token')
    return await postern(['sign-in', 'check', '--token', token], { POSTERN_SIGN_IN: JSON.stringify({ providers }) })
  }
  const wrong = await check('harbour-line')
  expect([wrong.code, wrong.stderr]).toEqual([
    1,
    expect.stringContaining('providers[0].tenant.otherwise names harbour-line'),
  ])
  expect(wrong.stderr).not.toContain(tenant.slug)
  // The control: then the token is read.
  expect((await check(other.id)).stderr).toContain('(not_a_jwt)')
})

describe('an invalid command line ends with exit code 2 and one line, and sends no request', () => {
  test.each([
    ['an unknown command', ['keys', 'remove', 'x']],
    ['a missing option', ['keys', 'create', '--tenant', 'x', '--label', 'x', '--scope', 'read:findings']],
    ['an unknown option', ['tenants', 'list', '--all']],
    ['an unknown scope', ['keys', 'create', '--tenant', 'x', '--label', 'x', '--scope', 'read', '--expires', '30d']],
    [
      'an expiry without offset',
      'keys create --tenant x --label x --scope read:findings --expires 2030-01-01T00:00:00'.split(' '),
    ],
    ['an unknown state', ['keys', 'list', '--tenant', 'x', '--state', 'dead']],
    ['a limit of nothing', ['keys', 'list', '--tenant', 'x', '--limit', '0']],
    ['an overlap without unit', ['keys', 'rotate', '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', '--overlap', '24']],
    ['a slug in upper case', ['tenants', 'create', 'Bank', '--name', 'Bank']],
  ])('%s', async (_what, args) => {
    const { code, stdout, stderr } = await postern(args, { POSTERN_KEYS_URL: 'http://127.0.0.1:1' })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^postern: [^\n]+\n$/)
  })

  test('a key passed instead of its id is not printed', async () => {
    const { key } = await createKey()
    for (const json of [[], ['--json']]) {
      const { code, stdout, stderr } = await postern(['keys', 'revoke', key, ...json])
      expect(code).toBe(2)
      expect(stdout + stderr).not.toContain(key.slice(8, 20))
    }
  })

  test('keys find rejects a key on the command line, several keys and no key, and prints none', async () => {
    const [{ key }, { key: second }] = [await createKey(), await createKey()]
    for (const [args, input] of [
      [[key], ''],
      [['-'], ''],
      [['-'], key.slice(0, -1)],
      [['-'], `${key} ${second}`],
    ] as const) {
      const { code, stdout, stderr } = await postern(['keys', 'find', ...args], {}, input)
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).not.toContain(key.slice(8, 20))
    }
  })

  test('both a secret and a file of it', async () => {
    const { code, stderr } = await postern(['tenants', 'list'], { POSTERN_ASSERTION_KEYS_FILE: '/nowhere' })
    expect(code).toBe(2)
    expect(stderr).toBe('postern: give POSTERN_ASSERTION_KEYS or POSTERN_ASSERTION_KEYS_FILE, not both\n')
  })

  test('an invalid secret, without showing it', async () => {
    const { code, stderr } = await postern(['tenants', 'list'], { POSTERN_SIGNING_OPERATOR: 'k1:not-a-secret-of-32' })
    expect(code).toBe(2)
    expect(stderr).toContain('POSTERN_SIGNING_OPERATOR')
    expect(stderr).not.toContain('not-a-secret')
  })

  test('an address with a path', async () => {
    const { code } = await postern(['tenants', 'list'], { POSTERN_KEYS_URL: 'http://127.0.0.1:8181/keys' })
    expect(code).toBe(2)
  })
})

describe('a rejection by the server ends with exit code 3', () => {
  test('a slug that is taken', async () => {
    const { code, stderr } = await postern(['tenants', 'create', tenant.slug, '--name', 'Again'])
    expect(code).toBe(3)
    expect(stderr).toMatch(/^postern: The slug .+ is taken\. .+\(conflict, request .+\)\n$/)
  })

  test('an expiry in the past, named with its field', async () => {
    const { code, stdout, stderr } = await postern(withDefaults('--expires', '2020-01-01T00:00:00Z'))
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({
      status: 422,
      code: 'invalid_content',
      errors: [{ pointer: '/expires_at' }],
    })
  })

  test('an invalid address', async () => {
    const args = withDefaults('--address', 'everywhere').filter((arg) => arg !== '--json')
    const { code, stderr } = await postern(args)
    expect(code).toBe(3)
    expect(stderr).toMatch(/^postern: .*\/allowed_addresses.*\(invalid_content, request .+\)\n$/)
  })

  test('a signature with a secret that is not the operator’s', async () => {
    const { code, stderr } = await postern(['tenants', 'list'], { POSTERN_SIGNING_OPERATOR: randomRing('k1') })
    expect(code).toBe(3)
    expect(stderr).toContain('does not accept the signature')
  })

  test('the rotation of a revoked key', async () => {
    const { id } = await createKey()
    await postern(['keys', 'revoke', id])
    expect((await postern(['keys', 'rotate', id])).code).toBe(3)
  })
})

describe('a missing resource ends with exit code 4', () => {
  const nobody = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'

  test.each(['show', 'revoke', 'rotate', 'events'])('keys %s of an unknown id', async (command) => {
    const { code, stderr } = await postern(['keys', command, nobody])
    expect({ code, stderr }).toEqual({ code: 4, stderr: 'postern: no tenant has a key with this id\n' })
  })

  test('a key that another tenant has', async () => {
    const { id } = await createKey()
    expect((await postern(['keys', 'show', id, '--tenant', other.slug])).code).toBe(4)
    expect((await postern(['keys', 'show', id, '--tenant', tenant.slug])).code).toBe(0)
  })

  test.each([
    ['keys', 'list', '--tenant', 'nobody'],
    ['tenants', 'suspend', 'nobody'],
  ])('an unknown tenant: %s %s', async (...args) => {
    expect((await postern(args)).code).toBe(4)
  })
})

describe('an unavailable server ends with exit code 5', () => {
  test('nothing listens there', async () => {
    const url = `http://127.0.0.1:${await findFreePort()}`
    const { code, stderr } = await postern(['tenants', 'list'], { POSTERN_KEYS_URL: url })
    expect({ code, stderr }).toEqual({
      code: 5,
      stderr: `postern: nothing listens at ${url}. Check the port, and that Postern is running\n`,
    })
  })

  test('a system that was never started', async () => {
    const texts: string[] = []
    const output = { out: () => undefined, err: (text: string) => texts.push(text) }
    expect(await run(['tenants', 'list'], { POSTERN_HOME: join(stack.home, 'nowhere') }, output)).toBe(5)
    expect(texts.join('')).toContain('Start the system with `npm start`')
  })
})

describe('the command as a process', () => {
  test('finds the files of npm start in POSTERN_HOME', async () => {
    const file = join(stack.home, 'stack.json')
    await writeFile(file, JSON.stringify({ services: { keys: stack.serviceUrl('keys') } }))
    const texts: string[] = []
    const output = { out: (text: string) => texts.push(text), err: (text: string) => texts.push(text) }
    expect(await run(['tenants', 'list'], { POSTERN_HOME: stack.home }, output)).toBe(0)
    expect(texts.join('')).toContain(tenant.slug)
  })

  test('reads its secrets from files and ends with the exit code', async () => {
    expect((await stack.cli('tenants', 'list')).stdout).toContain(tenant.slug)
    expect((await stack.cli('keys', 'list', '--tenant', 'nobody')).code).toBe(4)
  })

  test.each([
    [],
    ['tenants'],
    ['keys'],
    ...['create', 'list', 'show', 'update', 'events', 'suspend', 'resume'].map((name) => ['tenants', name]),
    ...['create', 'list', 'show', 'revoke', 'rotate', 'events'].map((name) => ['keys', name]),
  ])('help: postern %s %s --help', async (...words) => {
    const { code, stdout } = await postern([...words.filter((word) => word !== undefined), '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain('Usage: postern')
    if (words.length > 0) expect(stdout).toContain('npm run -s postern -- ')
    if (words.length !== 1) expect(stdout).toContain('Exit codes:')
  })

  test('without a command prints the help and ends with exit code 2', async () => {
    const { code, stdout, stderr } = await postern([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Usage: postern')
  })
})
