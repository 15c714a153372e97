/**
 * @promise Data: A JSON document has one meaning: duplicate members and numbers that lose digits are rejected.
 * @alsoShownBy verification/fuzz/contract-fuzzing.test.ts
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { maxJsonDepth, parseJsonBody, parseJsonLines } from './json-body.ts'
import { findJsonFault } from './json-scan.ts'
import { ProblemError } from './problem.ts'

function bytes(text: string): Buffer {
  return Buffer.from(text, 'utf8')
}

/** Code of the problem, then pointer and code of its error. */
function refusalOf(body: Buffer): readonly [code: string, pointer?: string, error?: string] {
  try {
    parseJsonBody(body)
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error
    const [first] = error.options.errors ?? []
    return first === undefined ? [error.code] : [error.code, first.pointer ?? '', first.code]
  }
  return ['accepted']
}

describe('a JSON body is refused', () => {
  test.each([
    ['a key twice', '{"a":1,"b":2,"a":3}', '/a'],
    ['a key twice with the same value', '{"a":1,"a":1}', '/a'],
    ['a key twice in an object in a list', '[{"x":1},{"x":{"y":1,"z":[],"y":2}}]', '/1/x/y'],
    ['a key in two spellings', String.raw`{"title":1,"t\u0069tle":2}`, '/title'],
    ['an escaped solidus', String.raw`{"a/b":1,"a\/b":2}`, '/a~1b'],
    ['an empty key twice', '{"":1,"":2}', '/'],
    ['a key twice among many', `{${Array.from({ length: 40 }, (_, at) => `"k${at}":${at}`).join(',')},"k3":0}`, '/k3'],
    [
      'a key twice where the first of many is',
      `{"k0":1,${Array.from({ length: 40 }, (_, at) => `"k${at}":0`)}}`,
      '/k0',
    ],
  ])('for %s', (_what, text, pointer) => {
    expect(refusalOf(bytes(text))).toEqual(['malformed_json', pointer, 'duplicate_key'])
    // The control: what it would be without this check.
    expect(() => JSON.parse(text)).not.toThrow()
  })

  test.each(['{"__proto__":{}}', String.raw`{"custom":{"\u005f_proto__":1}}`])('for a prototype: %s', (text) => {
    expect(refusalOf(bytes(text))).toEqual(['malformed_json', expect.stringMatching(/\/__proto__$/), 'forbidden_key'])
  })

  test.each([
    '1e400',
    '-1e309',
    '1e-400',
    '9007199254740993',
    '-12345678901234567890',
    '0.123456789012345678901',
    '1.0000000000000000000001e5',
    `1${'0'.repeat(400)}`,
    `0.${'0'.repeat(400)}1`,
  ])('for a number that would become another: %s', (number) => {
    expect(refusalOf(bytes(`{"n":[0,${number}]}`))).toEqual(['malformed_json', '/n/1', 'inexact_number'])
  })

  test.each([
    ['NUL', String.raw`\u0000`],
    ['an unpaired high surrogate', String.raw`\ud83d`],
    ['an unpaired low surrogate', String.raw`\uDE00`],
    ['two high surrogates', String.raw`\ud83d\ud83d`],
    ['a pair the wrong way round', String.raw`\ude00\ud83d`],
    ['a high surrogate before another escape', String.raw`\ud83d\n`],
  ])('for %s, as text and in a key', (_what, escape) => {
    expect(refusalOf(bytes(`{"a":["x${escape}y"]}`))).toEqual(['invalid_content', '/a/0', 'invalid_text'])
    expect(refusalOf(bytes(`{"b":{"x${escape}y":1}}`))).toEqual(['invalid_content', '/b', 'invalid_text'])
  })

  test('for one level too many, in lists and objects, and at a megabyte of them', () => {
    const lists = (depth: number) => bytes('['.repeat(depth) + ']'.repeat(depth))
    expect(refusalOf(lists(maxJsonDepth))).toEqual(['accepted'])
    expect(refusalOf(lists(maxJsonDepth + 1))).toEqual(['malformed_json', '/0'.repeat(maxJsonDepth), 'too_deep'])
    expect(refusalOf(bytes('['.repeat(1 << 20)))[2]).toBe('too_deep')
    expect(refusalOf(bytes('{"a":'.repeat(1 << 18)))).toEqual(['malformed_json', '/a'.repeat(maxJsonDepth), 'too_deep'])
  })

  test('for bytes that are not UTF-8, and for a byte order mark inside', () => {
    expect(refusalOf(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).toEqual(['malformed_json', '', 'encoding'])
    expect(refusalOf(Buffer.from([0x22, 0xc0, 0x80, 0x22]))).toEqual(['malformed_json', '', 'encoding'])
    for (const text of ['\uFEFF\uFEFF{}', ' \uFEFF{}', '{\uFEFF}']) {
      expect(refusalOf(bytes(text))).toEqual(['malformed_json', '', 'syntax'])
    }
    expect(refusalOf(Buffer.from('{}', 'utf16le'))[0]).toBe('malformed_json')
  })

  test('with the position of the fault, and without the text at that position', () => {
    const text = '{\n  "secret": "abc",\n  "x": nope\n}'
    expect(() => parseJsonBody(bytes(text))).toThrow(
      expect.objectContaining({
        options: {
          detail: 'The body is not valid JSON (RFC 8259): look at line 3, column 8.',
          errors: [{ pointer: '/x', code: 'syntax', detail: 'is not valid JSON (RFC 8259)' }],
        },
      }),
    )
  })

  test('without quoting a key of a megabyte', () => {
    const long = 'k'.repeat(1 << 20)
    expect(refusalOf(bytes(`{"a":{"${long}":1,"${long}":2}}`))).toEqual(['malformed_json', '/a', 'duplicate_key'])
  })
})

describe('a JSON body is accepted', () => {
  test.each([
    '0',
    '-0',
    '0.0',
    '0e99999',
    '9007199254740991',
    '0.1',
    '0.30000000000000004',
    '0.10000000000000001',
    '1e21',
    '100000000000000000000',
    '1.7976931348623157e308',
    '5e-324',
    '12.50000000000000000000',
  ])('with the number %s', (number) => {
    expect(parseJsonBody(bytes(number))).toBe(Number(number))
  })

  test('with the same key in different objects, and with keys that differ only in case or form', () => {
    const text = String.raw`{"a":{"a":[{"a":1},{"a":2}]},"A":1,"\u00e9":1,"e\u0301":2,"constructor":{"prototype":1}}`
    expect(parseJsonBody(bytes(text))).toEqual(JSON.parse(text))
  })

  test('with pairs of surrogates, in either spelling', () => {
    expect(parseJsonBody(bytes(String.raw`["\ud83d\uDE00","😀"]`))).toEqual(['😀', '😀'])
  })

  test('when it is empty, as no body at all', () => {
    expect(parseJsonBody(Buffer.alloc(0))).toBeUndefined()
    expect(parseJsonBody(bytes('\uFEFF'))).toBeUndefined()
  })

  test('after a byte order mark, which Windows tools write', () => {
    expect(parseJsonBody(bytes('\uFEFF{"a":"\uFEFFb"}'))).toEqual({ a: '\uFEFFb' })
  })

  test('as lines of joined files, each after its byte order mark', () => {
    expect(parseJsonLines(bytes('\uFEFF{"a":1}\n\n\uFEFF{"a":2}\r\n\uFEFF'))).toEqual([{ a: 1 }, { a: 2 }])
  })
})

/** What is wrong with a value: of a text that JSON.parse accepts, the rest of the rules, without a scanner. */
function isFit(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0')
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([key, inner]) => key !== '__proto__' && isFit(key) && isFit(inner))
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const noise = fc.array(
  fc.constantFrom(
    ...'{}[]:,"\\ \n\t\u000b\u00a0',
    '0',
    '1',
    '-',
    '.',
    'e',
    'E',
    '+',
    'u',
    'd83d',
    'true',
    'nul',
    'null',
    'é',
  ),
  { maxLength: 12 },
)

function asEscapes(text: string): string {
  return text.replaceAll(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** A key as JSON, with some of its characters escaped without need. */
function spell(key: string, escaped: readonly boolean[]): string {
  return [
    ...JSON.stringify(key)
      .slice(1, -1)
      .matchAll(/\\u[0-9a-f]{4}|\\.|[\s\S]/gu),
  ]
    .map(([one], at) => (escaped[at % escaped.length] === true && !one.startsWith('\\') ? asEscapes(one) : one))
    .join('')
}

describe('the scanner', () => {
  test('accepts what JSON.stringify writes for valid values, and rejects all other values', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 5 }), fc.constantFrom(0, 2), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent)
        expect(findJsonFault(text, 64) === undefined).toBe(isFit(JSON.parse(text)))
      }),
      { numRuns: 500 },
    )
  })

  test('reports exactly the texts that JSON.parse rejects as malformed', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 3 }), noise, fc.nat(), fc.nat(8), (json, inserted, at, cut) => {
        const from = at % (json.length + 1)
        const text = json.slice(0, from) + inserted.join('') + json.slice(from + cut)
        const fault = findJsonFault(text, 64)
        if (parses(text)) expect(fault?.kind).not.toBe('syntax')
        // Another fault may come before the one in the syntax.
        else expect(fault).toBeDefined()
      }),
      { numRuns: 3000 },
    )
  })

  test('finds a repeated key in any spelling, and its position', () => {
    const spelling = fc.array(fc.boolean(), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string({ unit: 'grapheme' }), { minLength: 1, maxLength: 30 }),
        fc.nat(),
        spelling,
        spelling,
        (keys, pick, one, other) => {
          fc.pre(!keys.includes('__proto__') && keys.every(isFit))
          const twice = keys[pick % keys.length] ?? ''
          const members = keys.map((key) => `"${spell(key, one)}": null`)
          expect(findJsonFault(`[{${members.join(',')}}]`, 64)).toBeUndefined()
          const fault = findJsonFault(`[{${members.join(',')},"${spell(twice, other)}":0}]`, 64)
          expect([fault?.kind, fault?.path]).toEqual(['duplicate_key', [0, twice]])
        },
      ),
      { numRuns: 300 },
    )
  })

  test('accepts every double as JSON.stringify writes it', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        expect(findJsonFault(JSON.stringify(number), 1)).toBeUndefined()
        expect(findJsonFault(number.toPrecision(17), 1)).toBeUndefined()
      }),
      { numRuns: 1000 },
    )
  })
})
