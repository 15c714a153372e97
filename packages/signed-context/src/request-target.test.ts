import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { type TargetRefusal, canonicalTarget } from './request-target.ts'

const id = '0190c0de-2222-7000-8000-000000000001'

const refused: readonly (readonly [TargetRefusal, readonly string[]])[] = [
  [
    'not_origin_form',
    ['', '*', 'api/v1/findings', 'http://127.0.0.1/api/v1/findings', 'example.com:443', '?limit=1', ' /api', './api'],
  ],
  ['empty_segment', ['//', '//evil.example/api', '/api//v1/findings', '/api/v1/findings//', '///']],
  [
    'dot_segment',
    [
      '/.',
      '/..',
      '/./api',
      '/../api',
      '/api/v1/findings/.',
      '/api/v1/findings/..',
      '/api/v1/findings/./x',
      '/api/v1/findings/./%2e/x',
      '/api/v1/findings/../keys',
      '/api/v1/findings/../../../internal/v1/leases?x=1',
    ],
  ],
  [
    'forbidden_escape',
    [
      '/api/v1/findings/%2e%2e/keys',
      '/api/v1/findings/%2E./keys',
      '/api/v1/findings/.%2e',
      '/api/v1/findings/..%2fkeys',
      '/api/v1/findings%2F..',
      '/api/v1/findings/..%5ckeys',
      '/api/v1/findings/x%5C..',
      '/api/v1/findings/%00',
      '/api/v1/findings/x%0d%0aHost:%20evil',
      '/api/v1/findings/%1F',
      '/api/v1/findings/%7f',
      '/api/v1/findings/%252e%252e',
      '/api/v1/findings/%252F',
      '/api/v1/findings/%2525',
      '/api/v1/%66indings',
      '/api/v1/f%69ndings',
      '/api/v1/api%2Dkeys',
      '/api/v1/audit%5Fable',
      '/api/v%31/findings',
      '/%7Euser',
      '/api/v1/findings?q=%00',
    ],
  ],
  [
    'bad_escape',
    [
      '/api/v1/findings/%',
      '/api/v1/findings/%2',
      '/api/v1/findings/%zz',
      '/api/v1/findings/%%32%65',
      '/api/v1/findings/%u002e',
      '/api/v1/findings/%c0%ae',
      '/api/v1/findings/%c0%af',
      '/api/v1/findings/%e0%80%af',
      '/api/v1/findings/%ff',
      '/api/v1/findings/%c3',
      '/api/v1/findings/%ed%a0%80',
      '/api/v1/findings?q=%',
      '/api/v1/findings?q=%g1',
      '/api/v1/findings?q=%c0%af',
      '/api/v1/findings?q=50%&x=1',
    ],
  ],
  [
    'forbidden_character',
    [
      '/api/v1/findings/x\\..\\..\\..\\..\\internal\\v1\\leases',
      '/\\evil.example/',
      '/api/v1/findings;x=/..',
      '/api/v1/findings;jsessionid=1',
      '/api/v1/findings#x',
      '/api/v1/findings?q=1#x',
      '/api/v1/findings?#',
      '/api/v1/findings/a b',
      '/api/v1/findings/a\tb',
      '/api/v1/findings/\0',
      '/api/v1/findings/x\r\nHost: evil',
      '/api/v1/findings/\x7f',
      '/api/v1/findings/\u00e9',
      '/api/v1/findings/\uff0e\uff0e/x',
      '/api/v1/findings/\u2024',
      '/api/v1/findings/\ud800',
      '/api/v1/findings/"x"',
      '/api/v1/findings/<x>',
      '/api/v1/findings/{x}',
      '/api/v1/findings/a|b',
      '/api/v1/findings/a^b',
      '/api/v1/findings/`a',
      '/api/v1/findings/[x]',
      '/api/v1/findings?q=a b',
      '/api/v1/findings?q=\u00e9',
      '/api/v1/findings?q=\0',
      '/api/v1/findings?q=a\nb',
      '/api/v1/findings?q=a\x7f',
    ],
  ],
]

const accepted: readonly (readonly [rawUrl: string, path: string, query: string])[] = [
  ['/', '/', ''],
  ['/api/v1/findings', '/api/v1/findings', ''],
  ['/api/v1/findings/', '/api/v1/findings/', ''],
  ['/api/v1/findings?', '/api/v1/findings', ''],
  ['/api/v1/findings??', '/api/v1/findings', '?'],
  ['/api/v1/Findings', '/api/v1/Findings', ''],
  [`/api/v1/findings/${id}?limit=10&status=open,closed`, `/api/v1/findings/${id}`, 'limit=10&status=open,closed'],
  ['/api/v1/findings/ref:F-2026-0042', '/api/v1/findings/ref:F-2026-0042', ''],
  ['/api/v1/findings/ref%3AF-2026-0042', '/api/v1/findings/ref%3AF-2026-0042', ''],
  ['/api/v1/findings/ext:a%20b%3B%23%3F', '/api/v1/findings/ext:a%20b%3B%23%3F', ''],
  ['/api/v1/findings/ext:100%25', '/api/v1/findings/ext:100%25', ''],
  ['/api/v1/findings/ext:100%25%20done', '/api/v1/findings/ext:100%25%20done', ''],
  ['/api/v1/findings/ext:caf%C3%A9', '/api/v1/findings/ext:caf%C3%A9', ''],
  ['/api/v1/findings/ext:caf%c3%a9', '/api/v1/findings/ext:caf%c3%a9', ''],
  ["/a!$&'()*+,=:@-._~", "/a!$&'()*+,=:@-._~", ''],
  ['/.well-known/jwks.json', '/.well-known/jwks.json', ''],
  ['/a./b../.c/..d/...', '/a./b../.c/..d/...', ''],
  ['/x?q=%2e%2e/..//\\;"<>|^`{}[]&r=%25%32', '/x', 'q=%2e%2e/..//\\;"<>|^`{}[]&r=%25%32'],
  [
    '/x?updated_since=2026-01-01T00:00:00.000Z&sort=-severity,due_date',
    '/x',
    'updated_since=2026-01-01T00:00:00.000Z&sort=-severity,due_date',
  ],
  ['/x?a=/../b', '/x', 'a=/../b'],
]

// Texts of the parts that path attacks use.
const pieces = fc.oneof(
  fc.constantFrom('/', '//', '.', '..', '%2e', '%2E', '%2f', '%5c', '\\', ';', '#', '?', '%', '%25', '%252e', '%00'),
  fc.constantFrom('a', 'api', 'v1', '%41', ':', '@', '|', '"', ' ', '\t', '\n', '%20', '=', '&', '%7e', '~', '[', '^'),
  fc.constantFrom('%c3%a9', '%c0%ae', '\u00e9', '\uff0e'),
)
const targets = fc.oneof(
  fc.array(pieces, { maxLength: 12 }).map((list) => `/${list.join('')}`),
  fc
    .array(fc.constantFrom('a', 'b', '.', '..', '...', '.a', 'a.', '%20', 'é'), { maxLength: 6 })
    .map((list) => `/${list.join('/')}`),
  fc.webPath(),
  fc.string({ unit: 'binary', maxLength: 30 }).map((text) => `/${text}`),
)

describe('a target is rejected', () => {
  test.each(refused.flatMap(([reason, list]) => list.map((rawUrl) => [reason, rawUrl] as const)))(
    'as %s: %j',
    (reason, rawUrl) => {
      expect(canonicalTarget(rawUrl)).toEqual({ ok: false, reason })
    },
  )

  test('with any escape of an ASCII letter, digit, dot, slash, backslash or control character in its path', () => {
    for (let code = 0; code < 128; code += 1) {
      const character = String.fromCharCode(code)
      const escape = `%${code.toString(16).padStart(2, '0')}`
      const isRefused = /[A-Za-z0-9\-._~/\\]/.test(character) || code < 32 || code === 127
      for (const spelling of [escape.toLowerCase(), escape.toUpperCase()])
        expect([spelling, canonicalTarget(`/a${spelling}b`).ok]).toEqual([spelling, spelling === '%25' || !isRefused])
    }
  })

  test('when it is longer than the limit, but not at the limit', () => {
    expect(canonicalTarget(`/${'a'.repeat(8191)}`).ok).toBe(true)
    expect(canonicalTarget(`/${'a'.repeat(8192)}`)).toEqual({ ok: false, reason: 'too_long' })
    expect(canonicalTarget('/abc', 4).ok).toBe(true)
    expect(canonicalTarget('/abcd', 4)).toEqual({ ok: false, reason: 'too_long' })
  })
})

describe('a target is accepted', () => {
  test.each(accepted)('and split, byte for byte: %j', (rawUrl, path, query) => {
    expect(canonicalTarget(rawUrl)).toEqual({ ok: true, path, query })
  })

  test('in parts that join to the original, except for an empty query', () => {
    fc.assert(
      fc.property(targets, (rawUrl) => {
        const target = canonicalTarget(rawUrl)
        fc.pre(target.ok)
        expect([`${target.path}?${target.query}`, target.path]).toContain(rawUrl.includes('?') ? rawUrl : target.path)
        expect(rawUrl.startsWith(target.path)).toBe(true)
      }),
    )
  })

  test('with the same parts when it is parsed again', () => {
    fc.assert(
      fc.property(targets, (rawUrl) => {
        const target = canonicalTarget(rawUrl)
        fc.pre(target.ok)
        expect(canonicalTarget(`${target.path}?${target.query}`)).toEqual(target)
      }),
    )
  })

  test('only if a URL parser does not change its path', () => {
    fc.assert(
      fc.property(targets, (rawUrl) => {
        const target = canonicalTarget(rawUrl)
        fc.pre(target.ok)
        for (const base of ['http://service.internal', 'https://example.com/a/b']) {
          expect(new URL(rawUrl, base).pathname).toBe(target.path)
          expect(new URL(rawUrl, base).host).toBe(new URL(base).host)
        }
      }),
      { numRuns: 2000 },
    )
  })

  test('only if decoding its path once or twice adds no segments', () => {
    fc.assert(
      fc.property(targets, (rawUrl) => {
        const target = canonicalTarget(rawUrl)
        fc.pre(target.ok)
        const segments = target.path.split('/').length
        const once = decodeURIComponent(target.path)
        expect(once.split(/[/\\]/)).toHaveLength(segments)
        expect(
          once.replaceAll(/%[0-9A-Fa-f]{2}/g, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16))),
        ).toBe(once)
      }),
      { numRuns: 2000 },
    )
  })

  test('or rejected, without throwing, for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (rawUrl) => {
        expect([true, false]).toContain(canonicalTarget(rawUrl).ok)
      }),
    )
  })

  test('in linear time, even if it consists of slashes, dots or escapes', () => {
    // A pattern that backtracks would not finish here.
    for (const piece of ['/a', '/.', '.', '%20', '%c3%a9', '/a%25', '?', '%2', '/a;', '&a='])
      expect(typeof canonicalTarget(`/${piece.repeat(200_000)}`, 10_000_000).ok).toBe('boolean')
  })
})
