import {
  apiKeyEventSchema,
  apiKeySchema,
  bulkPreviewSchema,
  createdApiKeySchema,
  revokedApiKeySchema,
  apiKeyUsageSchema,
} from '@postern/contracts'
import { tenantSchema } from '@postern/contracts/internal'
import { ageKey } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type CommandWorld, openCommandWorld } from './command-world.ts'

let stack: CommandWorld['stack']
let tenant: CommandWorld['tenant']
let other: CommandWorld['other']
let postern: CommandWorld['postern']
let withDefaults: CommandWorld['withDefaults']
let createKey: CommandWorld['createKey']
let show: CommandWorld['show']
let whoAmI: CommandWorld['whoAmI']
let readFindings: CommandWorld['readFindings']

let world: CommandWorld
beforeAll(async () => {
  world = await openCommandWorld()
  ;({ stack, tenant, other, postern, withDefaults, createKey, show, whoAmI, readFindings } = world)
})
afterAll(async () => await world.stack.stop())

/** Returns the creator of a key from its audit trail, or the exit code if none was created. */
async function creatorOf(environment: Record<string, string>) {
  const { code, stdout } = await postern(withDefaults(), environment)
  if (code !== 0) return code
  const { id } = createdApiKeySchema.parse(JSON.parse(stdout))
  const events = await postern(['keys', 'events', id, '--json'])
  return apiKeyEventSchema
    .array()
    .parse(JSON.parse(events.stdout))
    .map(({ actor }) => actor)
}

describe('keys', () => {
  test('create prints the resource with the key, which works at once', async () => {
    const created = await createKey('--address', '127.0.0.0/8', '2001:db8::/32', '--scope', 'read:universe')
    expect(created).toMatchObject({
      label: 'made-by-a-test',
      state: 'active',
      scopes: ['read:findings', 'read:universe'],
      allowed_addresses: ['127.0.0.0/8', '2001:db8::/32'],
      masked: `•••••${created.key.slice(-4)}`,
      created_by: { type: 'operator' },
    })
    expect(await readFindings(created.key)).toBe(200)
  })

  test('create takes a date as the last second of its day in UTC', async () => {
    const { id } = await createKey('--expires', '2030-06-30')
    expect((await show(id)).expires_at).toBe('2030-06-30T23:59:59.000Z')
  })

  test('create shows people the key once, on a line of its own', async () => {
    const { code, stdout } = await postern(withDefaults().filter((arg) => arg !== '--json'))
    expect(code).toBe(0)
    expect(stdout.split('\n').filter((line) => /postern_[0-9A-Za-z]{49}/.test(line))).toHaveLength(1)
    expect(stdout).toMatch(/^postern_[0-9A-Za-z]{49}\n/)
  })

  test('the value of a key is in no other output', async () => {
    const { id, key } = await createKey('--expires', '2030-06-30T00:00:00+02:00')
    const outputs = [
      ['keys', 'list', '--tenant', tenant.slug],
      ['keys', 'show', id],
      ['keys', 'events', id],
      ['keys', 'revoke', id],
    ].flatMap((args) => [args, [...args, '--json']])
    for (const args of outputs) {
      const { code, stdout } = await postern(args)
      expect(code).toBe(0)
      expect(stdout).toContain(args[1] === 'events' ? 'created' : '•••••')
      expect(stdout).not.toContain(key.slice(8, 20))
    }
    expect((await show(id)).expires_at).toBe('2030-06-29T22:00:00.000Z')
  })

  test('the audit trail shows the operator of the credential, whatever the caller claims', async () => {
    const { code, stdout } = await postern(['operators', 'create', 'ada'])
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^ada:[\w-]+:[\w-]{43}\n$/)])
    const named = { POSTERN_OPERATOR_CREDENTIAL: stdout.trim(), POSTERN_OPERATOR: 'Head of Audit' }
    expect(await creatorOf(named)).toMatchObject([{ type: 'operator', label: 'ada' }])
    expect(await creatorOf({ POSTERN_OPERATOR: 'Head of Audit' })).toMatchObject([
      { type: 'operator', label: 'operator' },
    ])
  })

  test('the credential of an operator works under its own name only', async () => {
    const { stdout } = await postern(['operators', 'create', 'ada'])
    expect(await creatorOf({ POSTERN_OPERATOR_CREDENTIAL: stdout.trim().replace('ada', 'bob') })).toBe(3)
    expect(await creatorOf({ POSTERN_OPERATOR_CREDENTIAL: 'ada' })).toBe(2)
    expect((await postern(['operators', 'create', 'Ada Lovelace'])).code).toBe(2)
  })

  test('revoke returns when the gateway rejects the key, and a second revoke prints the same', async () => {
    const { id, key } = await createKey()
    expect(await readFindings(key)).toBe(200)
    const { code, stdout } = await postern(['keys', 'revoke', id, '--reason', 'laptop lost', '--json'])
    expect(await readFindings(key)).toBe(401)
    expect(code).toBe(0)
    const revoked = revokedApiKeySchema.parse(JSON.parse(stdout))
    expect(revoked).toMatchObject({ id, state: 'revoked', revoke_reason: 'laptop lost' })
    const again = revokedApiKeySchema.parse(JSON.parse((await postern(['keys', 'revoke', id, '--json'])).stdout))
    expect(again.revoked_at).toBe(revoked.revoked_at)
  })

  test('rotate prints a new key, and the old one ends after the overlap', async () => {
    const old = await createKey()
    const { stdout } = await postern(['keys', 'rotate', old.id, '--overlap', '2h', '--json'])
    const rotated = createdApiKeySchema.parse(JSON.parse(stdout))
    expect(rotated).toMatchObject({ label: old.label, scopes: old.scopes, rotated_from: old.id })
    expect(await readFindings(rotated.key)).toBe(200)
    const hoursLeft = (Date.parse((await show(old.id)).expires_at) - Date.parse(rotated.created_at)) / 3_600_000
    expect(hoursLeft).toBeCloseTo(2, 3)
  })

  test('rotate can begin the overlap with the first use of the new key, and show prints the traffic of both', async () => {
    const old = await createKey()
    expect((await postern(['keys', 'rotate', old.id, '--overlap-from', 'now'])).code).toBe(2)
    const args = ['keys', 'rotate', old.id, '--overlap', '2h', '--overlap-from', 'first_use', '--json']
    const rotated = createdApiKeySchema.parse(JSON.parse((await postern(args)).stdout))
    expect(await show(old.id)).toMatchObject({ expires_at: old.expires_at, pending_overlap: '2h' })
    for (const id of [old.id, rotated.id]) {
      const { stdout } = await postern(['keys', 'show', id])
      expect(stdout).toMatch(new RegExp(`\nold key +${old.id} +- +\\S+ \\S+ +0 +0\n`))
      expect(stdout).toMatch(new RegExp(`\nnew key +${rotated.id} +- +\\S+ \\S+ +0 +0\n`))
    }
    expect((await postern(['keys', 'show', old.id])).stdout).toContain('2h, from the first use of the new key')
    await postern(['keys', 'revoke', rotated.id])
    expect((await postern(['keys', 'show', old.id])).stdout).not.toContain('old key')
  })

  test('list prints every key over all pages, filters, and stops at its limit', async () => {
    const { slug } = await stack.createTenant()
    const made: string[] = []
    for (const label of ['a', 'b', 'c']) made.push((await createKey('--tenant', slug, '--label', label)).id)
    const [first] = made
    await postern(['keys', 'revoke', first ?? ''])
    const list = async (...args: readonly string[]): Promise<string[]> => {
      const { stdout } = await postern(['keys', 'list', '--tenant', slug, '--json', ...args])
      return apiKeySchema
        .array()
        .parse(JSON.parse(stdout))
        .map(({ label }) => label)
    }
    expect(await list()).toEqual(['c', 'b', 'a'])
    expect(await list('--limit', '2')).toEqual(['c', 'b'])
    expect(await list('--state', 'revoked', 'expired')).toEqual(['a'])
    expect(await list('--label', 'B')).toEqual(['b'])
    expect(await list('--scope', 'admin:sync')).toEqual([])
  })
})

describe('tenants', () => {
  test('a tenant is created, listed, suspended and resumed, with immediate effect on its keys', async () => {
    const slug = `${tenant.slug}-two`
    const made = await postern(['tenants', 'create', slug, '--name', 'Second Bank', '--json'])
    expect(tenantSchema.parse(JSON.parse(made.stdout))).toMatchObject({ slug, name: 'Second Bank', status: 'active' })
    const { key } = await createKey('--tenant', slug)
    expect(await postern(['tenants', 'suspend', slug])).toEqual({
      code: 0,
      stdout: `${slug} is suspended\n`,
      stderr: '',
    })
    expect(await readFindings(key)).toBe(403)
    const listed = tenantSchema.array().parse(JSON.parse((await postern(['tenants', 'list', '--json'])).stdout))
    expect(listed.find((each) => each.slug === slug)?.status).toBe('suspended')
    expect((await postern(['tenants', 'resume', slug])).code).toBe(0)
    expect(await readFindings(key)).toBe(200)
    const events = JSON.parse((await postern(['tenants', 'events', slug, '--json'])).stdout)
    expect(events).toMatchObject([{ type: 'resumed' }, { type: 'suspended' }, { type: 'created' }])
    const newest = (await postern(['tenants', 'events', slug, '--limit', '1'])).stdout.split('\n')
    expect(newest).toEqual([
      expect.stringMatching(/^AT +EVENT +BY +NAME +KEY LIMIT +TENANT LIMIT$/),
      expect.stringMatching(/^\S+ \S+Z +resumed +\S.* +Second Bank +6000 +60000$/),
      '',
    ])
  })

  test('a tenant has its new limits and name when the command returns', async () => {
    const slug = `${tenant.slug}-three`
    await postern(['tenants', 'create', slug, '--name', 'Third Bank'])
    const { key } = await createKey('--tenant', slug)
    const policyOf = async () => (await whoAmI(key)).headers.get('ratelimit-policy')
    expect(await policyOf()).toContain('q=6000')
    const changed = await postern(['tenants', 'update', slug, '--name', 'Third & Sons', '--key-limit', '120'])
    expect(changed).toMatchObject({ code: 0, stdout: expect.stringContaining('key limit     120 requests a minute') })
    expect(await policyOf()).toContain('q=120')
    expect(await (await whoAmI(key)).json()).toMatchObject({ tenant: { name: 'Third & Sons' } })
    expect((await postern(['tenants', 'show', slug])).stdout).toContain('tenant limit  60000 requests a minute')
  })

  test.each([
    ['nothing to change', ['tenants', 'update', 'x-y']],
    ['a limit of none', ['tenants', 'update', 'x-y', '--key-limit', '0']],
    ['a limit that is too large', ['tenants', 'update', 'x-y', '--key-limit', '3000000000'], 'from 1 to 1000000000'],
    ['a list that is too long', ['tenants', 'events', 'x-y', '--limit', '10000000'], 'from 1 to 9999999'],
    ['a limit that is not a number', ['tenants', 'update', 'x-y', '--tenant-limit', 'many']],
  ])('%s is rejected without a request', async (_what, args, words = '') => {
    const refused = await postern(args, { POSTERN_KEYS_URL: 'http://127.0.0.1:1' })
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(words)])
  })
})

test('a key is found by its value on standard input, in any tenant', async () => {
  const { id, key, masked } = await createKey()
  const pasted = `Authorization: ApiKey ${key}\r\n`
  const { code, stdout, stderr } = await postern(['keys', 'find', '-'], {}, pasted)
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain(id)
  expect(stdout).toContain(masked)
  expect(stdout).not.toContain(key.slice(8, 20))
  const inTenant = await postern(['keys', 'find', '-', '--tenant', tenant.slug, '--json'], {}, key)
  expect(apiKeySchema.parse(JSON.parse(inTenant.stdout)).id).toBe(id)
  const elsewhere = await postern(['keys', 'find', '-', '--tenant', other.slug], {}, key)
  expect(elsewhere).toMatchObject({ code: 4, stdout: '', stderr: 'postern: the tenant has no key with this value\n' })
})

test('keys explain shows each step of a decision', async () => {
  const { id } = await createKey()
  const refused = await postern(
    `keys explain ${id} --method post --path /api/v1/findings --address 203.0.113.7`.split(' '),
  )
  expect(refused).toMatchObject({ code: 0, stderr: '' })
  expect(refused.stdout).toMatch(/^refused: 403 insufficient_scope\n/)
  expect(refused.stdout).toMatch(/\nscope +refused +This operation needs the scope write:findings\. /)
  const accepted = await postern(['keys', 'explain', id, '--path', '/api/v1/findings', '--address', '::1', '--json'])
  expect(JSON.parse(accepted.stdout)).toMatchObject({ decision: 'accepted', route: 'findings.list' })
})

describe('keys report-leak', () => {
  test('rejects a key on the command line and a text without keys, and prints none', async () => {
    const { key } = await createKey()
    for (const [args, input] of [
      [[key], ''],
      [['-'], ''],
      [['-'], key.slice(0, -1)],
    ] as const) {
      const { code, stdout, stderr } = await postern(['keys', 'report-leak', ...args], {}, input)
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).not.toContain(key.slice(8, 20))
    }
  })

  test('revokes the keys in a text, without credentials', async () => {
    const [first, second] = [await createKey(), await createKey()]
    const env = { POSTERN_URL: stack.gateways[0] ?? '', POSTERN_SIGNING_OPERATOR: '', POSTERN_ASSERTION_KEYS: '' }
    const text = `curl -H "Authorization: ApiKey ${first.key}"\n${second.key} ${first.key}`
    const { code, stdout, stderr } = await postern(['keys', 'report-leak', '-'], env, text)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^reported 2 values: those that are keys are revoked \(receipt [0-9a-f-]{36}\)\n$/)
    expect([await show(first.id), await show(second.id)]).toMatchObject([{ state: 'revoked' }, { state: 'revoked' }])
    const events = await postern(['keys', 'events', first.id])
    expect(events.stdout).toMatch(/ revoked +127\.0\.0\.1 +127\.0\.0\.1 +.*Reported as leaked/)
  })
})

test('keys bulk previews a change, and makes it with the version of the preview', async () => {
  const [one, two] = [await createKey('--label', 'Bulk one'), await createKey('--label', 'Bulk two')]
  const select = ['keys', 'bulk', 'revoke', '--tenant', tenant.slug, '--label-contains', 'Bulk ']
  const preview = await postern(select)
  expect(preview).toMatchObject({ code: 0, stderr: '' })
  expect(preview.stdout).toContain('2 keys, 2 active, 0 used in the last 24 hours. Nothing is changed yet.')
  const version = /--apply ([0-9a-f]{32})\n/.exec(preview.stdout)?.[1] ?? ''
  expect(await readFindings(one.key)).toBe(200)
  await postern(['keys', 'update', two.id, '--note', 'Changed after the preview'])
  expect((await postern([...select, '--apply', version])).code).not.toBe(0)
  expect(await readFindings(one.key)).toBe(200)
  const current = bulkPreviewSchema.parse(JSON.parse((await postern([...select, '--json'])).stdout))
  const receipt = await postern([...select, '--reason', 'Left the company', '--apply', current.version])
  expect(receipt).toMatchObject({ code: 0, stderr: '' })
  expect(receipt.stdout).toMatch(/2 of 2 keys changed \(gateways: \d, confirmed: \d, fenced: 0\)\n$/)
  expect([await readFindings(one.key), await readFindings(two.key)]).toEqual([401, 401])
  expect((await postern([...select, '--id', one.id])).stderr).toContain('select keys with --id, or with --owned-by')
  expect((await postern([...select, '--label', 'Other'])).stderr).toContain('give revoke a --reason or nothing')
  const none = ['keys', 'bulk', 'revoke', '--tenant', tenant.slug, '--label-contains', 'No such label']
  expect((await postern(none)).stdout).toBe('No key is selected.\n')
})

test('keys policy shows the rules, and changes those that are given', async () => {
  const args = ['keys', 'policy', '--tenant', other.slug]
  expect((await postern(args)).stdout).toMatch(/\nidle keys +not revoked\n/)
  const changed = await postern([...args, '--revoke-idle-days', '180', '--rotation-days', '60'])
  expect(changed).toMatchObject({ code: 0, stderr: '' })
  expect(changed.stdout).toMatch(/\nrotation age +60 days\nidle keys +revoked after 180 days\n/)
  const kept = await postern([...args, '--audit-retention-days', '730'])
  expect(kept.stdout).toMatch(/\naudit events +kept for 730 days\n$/)
  expect((await postern([...args, '--audit-retention-days', '89'])).stderr).toContain('audit_retention_days')
  expect((await postern([...args, '--revoke-idle-days', 'soon'])).code).toBe(2)
  expect((await postern([...args, '--revoke-idle-days', '1'])).stderr).toContain('revoke_idle_days')
  expect((await postern([...args, '--revoke-idle-days', 'never'])).stdout).toMatch(/\nidle keys +not revoked\n/)
})

test('keys right-size removes the scopes that a key did not need in 30 days', async () => {
  const { id } = await createKey('--scope', 'read:universe')
  const young = await postern(['keys', 'right-size', id])
  expect(young).toMatchObject({ code: 0, stderr: '' })
  expect(young.stdout).toMatch(/^The key used 0 of the \d+ routes that it can call, since \S+ \S+\. After 30 days, /)
  expect((await show(id)).scopes).toEqual(['read:findings', 'read:universe'])
  await ageKey(stack.database, id, { days: 31, routes: ['findings.list'] })
  // Until the first housekeeping, the database does not know which scopes open a route.
  await vi.waitFor(
    async () => {
      expect((await postern(['keys', 'usage', id])).stdout).toContain('Not needed: read:universe.')
    },
    { timeout: 60_000, interval: 500 },
  )
  const done = await postern(['keys', 'right-size', id])
  expect(done.stdout).toContain('Scopes of the key: read:findings\n')
  expect((await show(id)).scopes).toEqual(['read:findings'])
  expect((await postern(['keys', 'right-size', id])).stdout).toContain('It needed every scope.')
})

test('keys rotate makes a key with fewer scopes', async () => {
  const { id } = await createKey('--scope', 'read:universe')
  expect((await postern(['keys', 'rotate', id, '--scope', 'write:findings'])).code).not.toBe(0)
  const { stdout } = await postern(['keys', 'rotate', id, '--scope', 'read:findings', '--json'])
  expect(createdApiKeySchema.parse(JSON.parse(stdout))).toMatchObject({ scopes: ['read:findings'], rotated_from: id })
})

test('keys usage shows where a key was used, and what was refused', async () => {
  const { id, key } = await createKey()
  expect(await readFindings(key)).toBe(200)
  const refused = await fetch(`${stack.gateways[0]}/api/v1/entities`, { headers: { authorization: `ApiKey ${key}` } })
  expect(refused.status).toBe(403)
  const requestId = refused.headers.get('x-request-id') ?? 'none'
  // Gateways report every ten seconds.
  await expect.poll(async () => (await postern(['keys', 'usage', id])).stdout, { timeout: 60_000 }).toContain(requestId)
  const { stdout } = await postern(['keys', 'usage', id])
  expect(stdout).toContain('In the last 30 days: 1 accepted, 1 refused.\n')
  expect(stdout).toMatch(/\n127\.0\.0\.1 +\S+ \S+ +\S+ \S+ +1 +1\n/)
  expect(stdout).toMatch(/\ninsufficient_scope +universe\.list-entities +1 +/)
  const shown = apiKeyUsageSchema.parse(JSON.parse((await postern(['keys', 'usage', id, '--json'])).stdout))
  expect(shown.last_refusals).toMatchObject([{ request_id: requestId, code: 'insufficient_scope', method: 'GET' }])
  const why = await postern(['keys', 'explain', id, '--request', requestId])
  expect(why.stdout).toMatch(
    /^refused: 403 insufficient_scope\nRequest \S+ at \S+ \S+: GET universe\.list-entities from /,
  )
  expect(why.stdout).toContain('\nNow: refused: insufficient_scope.\n')
  expect((await postern(['keys', 'explain', id, '--request', 'request-unknown'])).code).toBe(4)
  const usual = await postern(['keys', 'explain', id, '--path', '/api/v1/findings'])
  expect(usual.stdout).toMatch(/^accepted\nChecked for the address 127\.0\.0\.1\.\n/)
  for (const wrong of [[], ['--request', requestId, '--path', '/api/v1/findings']])
    expect((await postern(['keys', 'explain', id, ...wrong])).code).toBe(2)
})
