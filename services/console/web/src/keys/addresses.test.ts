import { expect, test } from 'vitest'
import { addressesIn, faultIn } from './addresses.ts'

test('the first invalid address is reported with valid examples', () => {
  expect(addressesIn(' 10.0.0.1,\n2001:db8::/32; ')).toEqual(['10.0.0.1', '2001:db8::/32'])
  for (const text of [
    'office',
    '10.0.0',
    '10.0.0.256',
    '10.0.0.0/33',
    '10.0.0.0/',
    '::1/129',
    '1::2::3',
    'a:b',
    '10.0.0.0/8/8',
  ]) {
    expect(faultIn(['10.0.0.1', text]), text).toContain(`“${text}” is not an address or network`)
  }
})

test('IPv4 and IPv6 addresses and networks are accepted, and an empty list', () => {
  expect(faultIn([])).toBeUndefined()
  expect(
    faultIn(['203.0.113.7', '10.0.0.0/8', '0.0.0.0/0', '::', '::1', '2001:DB8::/32', '::ffff:10.0.0.1']),
  ).toBeUndefined()
})
