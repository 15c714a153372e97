/**
 * @promise Keys and secrets: The value of a key is in one response; afterwards only its SHA-256 is stored.
 * @alsoShownBy services/keys/test/create-key.test.ts
 */

import { startTestRedis } from '@postern/local-stack/testing'
import { internalPaths } from '@postern/contracts/internal'
import { expect, test } from 'vitest'
import { keyBody, lookUp, newKey, newTenant, path, revoke, sql, startKeys } from './service.ts'

test('logs, problems, metrics and rows contain no key, and logs contain no hash', async () => {
  const redis = await startTestRedis()
  const service = await startKeys({ redisUrl: redis.urls.keys })
  const answers: string[] = []
  try {
    const admin = await newTenant(service)
    const keys = await Promise.all(Array.from({ length: 5 }, async () => await newKey(service, admin)))
    const [first, second] = keys
    if (first === undefined || second === undefined) throw new Error('no keys were made')
    for (const { hash } of keys) await lookUp(service, hash)
    const calls = [
      // Keys in the wrong place: in every field, in the path, in the query.
      ['POST', path, keyBody({ label: first.value })],
      ['POST', path, keyBody({ scopes: [first.value] })],
      ['POST', path, keyBody({ allowed_addresses: [first.value] })],
      ['POST', path, keyBody({ [first.value]: 1 })],
      ['POST', `${path}/find`, { key: first.value.slice(0, -1), [second.value]: first.value }],
      ['POST', `${path}/${first.value}/revoke`, {}],
      ['GET', `${path}/${first.value}`, undefined],
      ['GET', `${path}?label=${first.value}`, undefined],
      ['GET', `${path}?state=${first.value}`, undefined],
      ['GET', `${path}?cursor=${first.value}`, undefined],
      ['GET', `${path}?${first.value}=1`, undefined],
      ['POST', `${path}/${second.id}/rotate`, { overlap: first.value }],
      ['GET', `/internal/v1/${first.value}`, undefined],
    ] as const
    for (const [method, target, body] of calls) {
      const { status, text } = await service.call(admin, method, target, { body })
      if (status >= 400) answers.push(text)
    }
    for (const body of [{ hashes: [first.value] }, { hashes: [first.hash], extra: first.value }, first.value]) {
      answers.push((await service.ask(internalPaths.lookupKeys, body)).text)
    }
    await revoke(service, admin, first.id)
    redis.kill('SIGSTOP')
    await revoke(service, admin, second.id)
    await expect.poll(() => service.log.join('').includes('cache_paused'), { interval: 5 }).toBe(true)
    // The log has the reason, without arguments of the command.
    expect(service.log.join('')).toMatch(/"event":"cache_paused"[^}]*"reason":"timeout"/)
    redis.kill('SIGCONT')
    // The database fails during requests.
    await service.asSuperuser.system(
      async (tx) =>
        await tx.query(
          sql(
            `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postern_keys' and datname = current_database()`,
          ),
        ),
    )
    await newKey(service, admin).catch(() => undefined)
    answers.push(await (await fetch(`${service.url}/internal/metrics`)).text())
    await service.asSuperuser.system(
      async (tx) => await tx.execute(sql('alter table keys.api_key rename to api_key_away')),
    )
    answers.push((await service.call(admin, 'POST', path, { body: keyBody() })).text)
    answers.push((await service.ask(internalPaths.lookupKeys, { hashes: [first.hash] })).text)

    const log = service.log.join('')
    expect(log).toContain('request_crashed')
    for (const { value, hash } of keys) {
      expect(log).not.toContain(value.slice(8, 30))
      expect(log).not.toContain(hash.slice(0, 20))
      expect(answers.slice(-3).join('')).not.toContain(hash.slice(0, 20))
      // A response repeats a misplaced key at most in the name of an invalid field.
      expect(answers.slice(-3).join('')).not.toContain(value.slice(8, 30))
    }
  } finally {
    await service.close()
    await redis.stop()
  }
})
