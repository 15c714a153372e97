import { generateKey } from '@postern/api-key'
import { describe, expect, test } from 'vitest'
import { parseCredentials } from './credentials.ts'

const { value, hash } = generateKey()

describe('an Authorization header', () => {
  test.each([
    ['no key', 'ApiKey', 'ApiKey'],
    ['an empty key', 'ApiKey ', 'ApiKey'],
    ['a mistyped key', `ApiKey ${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}`, 'ApiKey'],
    ['a key in upper case', `ApiKey ${value.toUpperCase()}`, 'ApiKey'],
    ['a token with characters that none has', 'Bearer a b', 'Bearer'],
    ['more than any credential is long', `Bearer ${'a'.repeat(8200)}`, undefined],
    ['nothing', '', undefined],
  ])('with %s contains no credential', (_what, header, scheme) => {
    expect(parseCredentials(header)).toEqual({ kind: 'malformed', scheme })
  })

  test.each([
    ['two spaces', `ApiKey  ${value}`],
    ['a tab', `ApiKey\t${value}`],
    ['a space after the key', `ApiKey ${value} `],
    ['two keys', `ApiKey ${value}, ApiKey ${value}`],
    ['quotes', `ApiKey "${value}"`],
    ['angle brackets', `ApiKey <${value}>`],
    ['an escape', `ApiKey ${value.replace('_', '%5F')}`],
    ['the key alone', value],
    ['the scheme Bearer', `Bearer ${value}`],
    ['the scheme Token', `Token ${value}`],
    ['the key as a name', `Basic ${Buffer.from(`${value}:`).toString('base64')}`],
    ['the key as a password', `Basic ${Buffer.from(`api:${value}`).toString('base64')}`],
    ['the key instead of a name and a password', `Basic ${value}`],
  ])('with %s contains a misplaced key', (_what, header) => {
    expect(parseCredentials(header)).toEqual({ kind: 'misplaced_key' })
  })

  test.each(['ApiKey', 'apikey', 'APIKEY'])('contains a key under the scheme %s', (scheme) => {
    expect(parseCredentials(`${scheme} ${value}`)).toMatchObject({ kind: 'api_key', key: { hash } })
  })

  test('contains a token of up to 8193 characters', () => {
    const token = 'a'.repeat(8193)
    expect(parseCredentials(`Bearer ${token}`)).toEqual({ kind: 'bearer', token })
    expect(parseCredentials(`Bearer ${token}a`).kind).toBe('malformed')
  })

  test('contains an access token under the scheme Bearer', () => {
    expect(parseCredentials('bearer a.b-c_d~e+f/g==')).toEqual({ kind: 'bearer', token: 'a.b-c_d~e+f/g==' })
  })

  test('contains a key or a token under the scheme Bearer on routes for identity providers', () => {
    expect(parseCredentials(`Bearer ${value}`, { bearer: true, basic: false })).toMatchObject({
      kind: 'api_key',
      key: { hash },
    })
    expect(parseCredentials(`Bearer ${value}x`, { bearer: true, basic: false })).toEqual({
      kind: 'malformed',
      scheme: 'ApiKey',
    })
    expect(parseCredentials('Bearer a.b.c', { bearer: true, basic: false })).toEqual({ kind: 'bearer', token: 'a.b.c' })
    expect(parseCredentials(`ApiKey ${value}`, { bearer: true, basic: false }).kind).toBe('api_key')
    expect(parseCredentials(`Basic ${value}`, { bearer: true, basic: false })).toEqual({ kind: 'misplaced_key' })
  })

  test.each([
    ['as the password', `api:${value}`],
    ['as the name without a password', `${value}:`],
  ])('contains a key %s of Basic where the installation accepts it', (_what, pair) => {
    const header = `Basic ${Buffer.from(pair).toString('base64')}`
    expect(parseCredentials(header, { bearer: false, basic: true })).toMatchObject({ kind: 'api_key', key: { hash } })
    expect(parseCredentials(header, { bearer: true, basic: false })).toEqual({ kind: 'misplaced_key' })
  })

  test.each([
    ['a key as name beside a password', `${value}:secret`],
    ['a colon in the password', `api:${value}:`],
    ['a mistyped key', `api:${value.slice(0, -1)}`],
    ['no colon', value],
  ])('of Basic with %s contains no key that is accepted', (_what, pair) => {
    const header = `Basic ${Buffer.from(pair).toString('base64')}`
    expect(parseCredentials(header, { bearer: false, basic: true }).kind).toBe('misplaced_key')
  })

  test('of Basic without a key is malformed where the installation accepts keys in it', () => {
    const header = `Basic ${Buffer.from('ada:secret').toString('base64')}`
    expect(parseCredentials(header, { bearer: false, basic: true })).toEqual({ kind: 'malformed', scheme: undefined })
  })
})
