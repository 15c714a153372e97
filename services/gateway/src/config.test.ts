import { randomRing } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { readConfig } from './config.ts'

const services = ['KEYS', 'FINDINGS', 'UNIVERSE', 'EVIDENCE', 'SYNC'] as const
const rings = [
  ...services.map((name) => `SIGNING_${name}`),
  'ASSERTION_KEYS',
  'INTERNAL_SIGNING_KEYS',
  'CACHE_SIGNING_KEYS',
]
const env = {
  POSTERN_REDIS_URL: 'redis://127.0.0.1:6379',
  ...Object.fromEntries(services.map((name) => [`POSTERN_${name}_URL`, `http://${name.toLowerCase()}:8080`])),
  ...Object.fromEntries(rings.map((name) => [`POSTERN_${name}`, randomRing()])),
}

describe.each(services)('the address of a service, POSTERN_%s_URL,', (name) => {
  const setting = `POSTERN_${name}_URL`
  const urlOf = (value: string) =>
    Object.values(readConfig({ ...env, [setting]: value }).upstreams).map(({ url }) => url)

  test.each([
    ['http://host:8081', 'http://host:8081'],
    ['http://host:8081/', 'http://host:8081'],
    ['https://host', 'https://host'],
    ['http://[::1]:8081', 'http://[::1]:8081'],
  ])('is accepted as an origin: %s', (given, origin) => {
    expect(urlOf(given)).toContain(origin)
  })

  test.each(['http://host/keys', 'http://host/?a=b', 'http://host#a', 'http://somebody@host', 'http://:secret@host'])(
    'is refused at the start where the path of a request could not be added to it: %s',
    (given) => {
      expect(() => urlOf(given)).toThrow(
        `${setting}: must be only scheme, host and port, such as http://host:8080, without a path`,
      )
    },
  )

  test.each(['host:8081', 'ftp://host', 'http://'])('is refused at the start if it is not a URL: %s', (given) => {
    expect(() => urlOf(given)).toThrow(`${setting}: must be a URL that begins with http:// or https://`)
  })
})

describe('the name of a gateway', () => {
  test('defaults to the name of the host', () => {
    expect(readConfig(env).name).toMatch(/^.{1,100}$/)
  })

  test('has at most 100 characters, as leases require', () => {
    expect(readConfig({ ...env, POSTERN_GATEWAY_NAME: 'x'.repeat(100) }).name).toHaveLength(100)
    expect(() => readConfig({ ...env, POSTERN_GATEWAY_NAME: 'x'.repeat(101) })).toThrow(
      'POSTERN_GATEWAY_NAME: must have at most 100 characters',
    )
  })
})

describe('the schemes of keys', () => {
  test('are ApiKey unless the operator adds others', () => {
    expect(readConfig(env).keySchemes).toEqual({ bearer: false, basic: false })
    expect(readConfig({ ...env, POSTERN_KEY_SCHEMES: 'ApiKey, Basic' }).keySchemes).toEqual({
      bearer: false,
      basic: true,
    })
  })

  test.each([
    ['Basic', 'must include ApiKey'],
    ['ApiKey,Digest', 'must be ApiKey, Bearer and Basic, separated by commas'],
  ])('are not %s', (schemes, words) => {
    expect(() => readConfig({ ...env, POSTERN_KEY_SCHEMES: schemes })).toThrow(words)
  })
})
