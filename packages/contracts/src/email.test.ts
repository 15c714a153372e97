import { describe, expect, test } from 'vitest'
import { personRefSchema } from './common.ts'
import { emailSchema, isEmailAddress } from './email.ts'

const local64 = 'a'.repeat(64)

describe('an e-mail address', () => {
  test.each([
    ['of a guest of Entra ID', 'ada_example.com#EXT#@harbourline.onmicrosoft.com'],
    ['with &', 'r&d@x.example'],
    ['with =', 'a=b@x.example'],
    ['with /', 'c/o@x.example'],
    ['with an apostrophe and a plus', "o'neil+a@x.example"],
    ['with every character of an atom', "!#$%&'*+/=?^_`{|}~-@x.example"],
    ['with an umlaut', 'jürgen@x.example'],
    ['in another script', 'пример@пример.рф'],
    ['with an internationalized domain', 'ada@bücher.example'],
    ['with a domain in punycode', 'ada@xn--bcher-kva.example'],
    ['with a top-level domain in punycode', 'ada@xn--e1afmkfd.xn--p1ai'],
    ['with digits alone in a label', 'ada@163.com'],
    ['with a long top-level domain', 'ada@x.international'],
    ['with one label, inside a network', 'ada@intranet'],
    ['quoted', '"ada lund"@x.example'],
    ['quoted, with an @ and an escaped quote', String.raw`"a@b\"c"@x.example`],
    ['at an IPv4 address', 'ada@[192.0.2.1]'],
    ['at an IPv6 address', 'ada@[IPv6:2001:db8::1]'],
    ['with 64 octets before the @', `${local64}@x.example`],
  ])('%s is accepted, also of an owner', (_what, address) => {
    expect(isEmailAddress(address)).toBe(true)
    expect(personRefSchema.parse({ email: address })).toEqual({ email: address })
  })

  test.each([
    ['without an @', 'ada'],
    ['without a local part', '@x.example'],
    ['without a domain', 'ada@'],
    ['with two dots in a row', 'a..b@x.example'],
    ['with a dot at its beginning', '.a@x.example'],
    ['with a dot before the @', 'a.@x.example'],
    ['with an empty label', 'a@x..example'],
    ['with a blank', 'a b@x.example'],
    ['with a line break', 'a@x.example\n'],
    ['with an invisible character', 'a\u200Bb@x.example'],
    ['with a label that begins with a hyphen', 'a@-x.example'],
    ['with an open quote', '"a@x.example'],
    ['at no address', 'a@[300.0.2.1]'],
    ['with a name before it', 'Ada <ada@x.example>'],
    ['of two', 'a@x.example, b@x.example'],
    ['with 65 octets before the @', `a${local64}@x.example`],
    ['with 65 octets, of fewer characters, before the @', `${'ü'.repeat(33)}@x.example`],
    ['with a label of 64 characters', `a@${'b'.repeat(64)}.example`],
    [
      'of more than 254 octets',
      `a@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.${'e'.repeat(60)}.${'f'.repeat(12)}`,
    ],
  ])('%s is rejected', (_what, address) => {
    expect(isEmailAddress(address)).toBe(false)
    expect(emailSchema.safeParse(address).error?.issues.map(({ message }) => message)).toEqual([
      'must be an e-mail address',
    ])
  })
})
