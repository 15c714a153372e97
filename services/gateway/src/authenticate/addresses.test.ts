import { Socket } from 'node:net'
import { createAddressMatcher, parseAddressRanges } from '@postern/service-kit/access'
import { describe, expect, test } from 'vitest'
import { createClientAddress } from './addresses.ts'

function socketOf(remoteAddress: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
}

describe('a list of addresses', () => {
  test.each([
    ['10.0.0.0/8', '11.0.0.1'],
    ['10.0.0.0/8', ''],
    ['10.0.0.0/8', 'not an address'],
    ['10.0.0.0/8', '2001:db8::1'],
    ['2001:db8::/32', '10.0.0.1'],
    ['192.0.2.1', '192.0.2.2'],
    ['192.0.2.128/25', '192.0.2.127'],
    ['2001:db8::1', '2001:db8::2'],
    ['0.0.0.0/0', '2001:db8::1'],
    ['::/0', '192.0.2.1'],
    ['not an address', '192.0.2.1'],
  ])('%s does not contain %s', (range, address) => {
    expect(createAddressMatcher([range])(address)).toBe(false)
  })

  test.each([
    ['10.0.0.0/8', '10.255.0.1'],
    ['10.0.0.0/8', '::ffff:10.0.0.1'],
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8::/32', '2001:DB8:0:0::1'],
    ['::1', '::1'],
    ['2001:db8::1', '2001:db8:0::1'],
  ])('%s contains %s', (range, address) => {
    expect(createAddressMatcher([range])(address)).toBe(true)
  })

  test('that is empty contains no address', () => {
    expect(createAddressMatcher([])('192.0.2.1')).toBe(false)
  })

  test('with one invalid entry contains no address', () => {
    expect(createAddressMatcher(['192.0.2.1', '192.0.2.0/33'])('192.0.2.1')).toBe(false)
    expect(parseAddressRanges(['fe80::1%eth0'])).toBeUndefined()
  })

  test.each(['10.01.1.1', '0x0a010101', '10.1', '167837953', '010.0.0.0/8', '0xa.0.0.0/8', '10/8', '::ffff:010.0.0.1'])(
    'is unknown if readers disagree on it: %s',
    (entry) => {
      expect(parseAddressRanges([entry])).toBeUndefined()
    },
  )

  test.each(['10.01.1.1', '0x0a010101', '10.1', '167837953'])('does not contain an invalid address: %s', (address) => {
    expect(createAddressMatcher(['0.0.0.0/0', '::/0'])(address)).toBe(false)
  })
})

describe('the address of a client', () => {
  const behindProxies = createClientAddress(['10.0.0.0/8'])

  test('is that of the connection if no proxy is trusted', () => {
    expect(createClientAddress([])(socketOf('192.0.2.1'), '203.0.113.9')).toBe('192.0.2.1')
  })

  test('is that of the connection if it is not a trusted proxy', () => {
    expect(behindProxies(socketOf('192.0.2.1'), '203.0.113.9')).toBe('192.0.2.1')
  })

  test('is the last one that is not a trusted proxy, because anyone could write those before it', () => {
    expect(behindProxies(socketOf('10.0.0.1'), '198.51.100.7, 203.0.113.9, 10.0.0.2')).toBe('203.0.113.9')
    expect(behindProxies(socketOf('::ffff:10.0.0.1'), '198.51.100.7,203.0.113.9')).toBe('203.0.113.9')
  })

  test.each([
    ['203.0.113.9:51234', '203.0.113.9'],
    ['198.51.100.7:1, 203.0.113.9:51234, 10.0.0.2:443', '203.0.113.9'],
    ['[2001:db8::1]:51234', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
  ])('has no port, even if a proxy writes one: %s', (forwardedFor, address) => {
    expect(behindProxies(socketOf('10.0.0.1'), forwardedFor)).toBe(address)
  })

  test.each([
    '203.0.113.9, unknown',
    'for=203.0.113.9',
    '203.0.113.9:x',
    '[203.0.113.9',
    ', ',
    // What inet_aton takes besides: octal, hexadecimal, fewer parts.
    '10.01.1.1',
    '203.0.0113.9',
    '0xcb007109',
    '0xcb.0.113.9',
    '3405803785',
    '203.113.9',
    '::ffff:203.0.0113.9',
  ])('is in no list if its proxy names no address (%s), which is logged once', (forwardedFor) => {
    const told: unknown[] = []
    const addressOf = createClientAddress(['10.0.0.0/8'], (...fault) => void told.push(fault))
    const addresses = Array.from({ length: 3 }, () => addressOf(socketOf('10.0.0.1'), forwardedFor))
    expect(addresses).toEqual(['unknown', 'unknown', 'unknown'])
    expect(told).toEqual([['unreadable', '10.0.0.1']])
    expect(createAddressMatcher(['0.0.0.0/0', '::/0', '10.0.0.0/8'])('unknown')).toBe(false)
  })

  test('is that of a proxy that is not trusted, which is logged once per proxy', () => {
    const told: unknown[] = []
    const addressOf = createClientAddress(['10.0.0.0/8'], (...fault) => void told.push(fault))
    for (const peer of ['172.18.0.1', '172.18.0.1', '172.18.0.2', '10.0.0.1']) addressOf(socketOf(peer), '203.0.113.9')
    addressOf(socketOf('172.18.0.1'), undefined)
    expect(told).toEqual([
      ['not_trusted', '172.18.0.1'],
      ['not_trusted', '172.18.0.2'],
    ])
  })

  test('is logged for at most 16 peers, however many write the header', () => {
    const told: unknown[] = []
    const addressOf = createClientAddress([], (...fault) => void told.push(fault))
    for (let host = 1; host <= 100; host += 1) addressOf(socketOf(`192.0.2.${host}`), '203.0.113.9')
    expect(told).toHaveLength(16)
  })

  test('is that of the proxy if it names no client', () => {
    expect(behindProxies(socketOf('10.0.0.1'), '')).toBe('10.0.0.1')
    expect(behindProxies(socketOf('10.0.0.1'), ' ')).toBe('10.0.0.1')
    expect(behindProxies(socketOf('10.0.0.1'), undefined)).toBe('10.0.0.1')
  })

  test('is empty if the connection is closed', () => {
    expect(behindProxies(new Socket(), '203.0.113.9')).toBe('')
  })

  test('has one spelling', () => {
    expect(behindProxies(socketOf('10.0.0.1'), '::FFFF:203.0.113.9')).toBe('203.0.113.9')
    expect(behindProxies(socketOf('10.0.0.1'), '2001:DB8:0::0:1')).toBe('2001:db8::1')
    expect(createClientAddress([])(socketOf('::ffff:192.0.2.1'), undefined)).toBe('192.0.2.1')
    expect(createClientAddress([])(socketOf('::ffff:0:1'), undefined)).toBe('::ffff:0:1')
    expect(createClientAddress([])(socketOf('2001:db8::192.0.2.1'), undefined)).toBe('2001:db8::192.0.2.1')
  })
})
