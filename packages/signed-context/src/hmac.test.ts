import { createHmac, randomBytes } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { createMac } from './hmac.ts'

describe('the MAC of a text', () => {
  // RFC 4231 §4.2, §4.3, §4.7, §4.8: short key, key of words, key longer than a block, both long.
  test.each([
    ['case 1', '0b'.repeat(20), 'Hi There', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
    [
      'case 2',
      Buffer.from('Jefe').toString('hex'),
      'what do ya want for nothing?',
      '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
    ],
    [
      'case 6',
      'aa'.repeat(131),
      'Test Using Larger Than Block-Size Key - Hash Key First',
      '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
    ],
    [
      'case 7',
      'aa'.repeat(131),
      'This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.',
      '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2',
    ],
  ])('is the one of RFC 4231, %s', (_name, key, text, expected) => {
    const mac = createMac(Buffer.from(key, 'hex'))
    expect(Buffer.from(mac.base64(text), 'base64').toString('hex')).toBe(expected)
    expect(Buffer.from(mac.base64url(text), 'base64url').toString('hex')).toBe(expected)
  })

  test('equals the result of node:crypto, for any secret and any sequence of texts', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 140 }),
        fc.array(fc.string({ unit: 'binary', maxLength: 300 }), { maxLength: 5 }),
        (secret, texts) => {
          const mac = createMac(secret)
          for (const text of texts)
            expect(mac.base64(text)).toBe(createHmac('sha256', secret).update(text, 'utf8').digest('base64'))
        },
      ),
    )
  })

  test.each([8191, 8192, 8193, 100_000])('covers a whole text of %d characters with three bytes each', (length) => {
    const secret = randomBytes(32)
    const text = '€'.repeat(length - 1)
    for (const last of ['a', 'b']) {
      expect(createMac(secret).base64(text + last)).toBe(
        createHmac('sha256', secret)
          .update(text + last, 'utf8')
          .digest('base64'),
      )
    }
  })

  test('of a short text does not depend on the long one before it', () => {
    const secret = randomBytes(32)
    const mac = createMac(secret)
    const fresh = createMac(secret).base64('short')
    mac.base64('x'.repeat(8000))
    expect(mac.base64('short')).toBe(fresh)
  })
})
