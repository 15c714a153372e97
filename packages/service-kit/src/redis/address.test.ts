import { describe, expect, test } from 'vitest'
import { parseRedisAddress } from './address.ts'

describe('the address of Redis', () => {
  test.each([
    'http://redis:6379',
    'redis://one:6379,two:6379',
    'redis+sentinel://one:26379,two:26379',
    'redis+cluster://one:6379/0',
    'redis+cluster://one:6379?sentinel_password=x',
    'redis+sentinels://one/main',
    'redis://redis:70000',
    'redis://redis:6379/1',
    'redis://:%zz@redis:6379',
    'redis+cluster://one:6379,,two:6379',
  ])('%s is refused', (text) => expect(parseRedisAddress(text)).toBeUndefined())

  test('names one server', () => {
    expect(parseRedisAddress('rediss://:a%2Fb@redis:6380/0')).toEqual({
      mode: 'single',
      isEncrypted: true,
      nodes: [{ host: 'redis', port: 6380 }],
      user: undefined,
      password: 'a/b',
      group: undefined,
      sentinelPassword: undefined,
    })
    expect(parseRedisAddress('redis://[::1]')).toMatchObject({ nodes: [{ host: '::1', port: 6379 }] })
  })

  test('names Sentinels and their group, or nodes of a cluster', () => {
    expect(parseRedisAddress('redis+sentinel://me:secret@one,two:5000/main?sentinel_password=other')).toEqual({
      mode: 'sentinel',
      isEncrypted: false,
      nodes: [
        { host: 'one', port: 26_379 },
        { host: 'two', port: 5000 },
      ],
      user: 'me',
      password: 'secret',
      group: 'main',
      sentinelPassword: 'other',
    })
    expect(parseRedisAddress('rediss+cluster://:x@one:7000,two:7001')).toMatchObject({
      mode: 'cluster',
      isEncrypted: true,
      nodes: [
        { host: 'one', port: 7000 },
        { host: 'two', port: 7001 },
      ],
    })
  })
})
