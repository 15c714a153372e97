import fc from 'fast-check'
import { marker } from './pool.ts'

export const hostileValues: fc.Arbitrary<unknown> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom<unknown>(
      null,
      true,
      0,
      -1,
      1.5,
      2 ** 31,
      2 ** 53,
      1e308,
      '',
      ' ',
      [],
      {},
      [null],
      'null',
      '2026-02-30',
      '2026-13-01',
      '0000-01-01',
      '-000001-01-01',
      '2026-11-21T25:00:00Z',
      '9999-12-31T23:59:59-23:59',
      '0001-01-01T00:00:00+23:59',
      '\u0000',
      'a\u0000b',
      '\ud800',
      '\u202egnp.exe',
      '\r\nx-evil: 1',
      "' or '1'='1",
      '\\x00',
      'ext:',
      'ref:F-',
      'key:',
      '../../etc/passwd',
      'https://169.254.169.254/',
      '00000000-0000-0000-0000-000000000000',
      'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF',
      'constructor',
      '__proto__',
      Array.from({ length: 60 }, () => 'x'),
      Array.from({ length: 20 }).reduce<unknown>((inner) => [inner], 0),
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('x'.repeat(256), 'ß'.repeat(20_001), '1'.repeat(400)) },
  { weight: 1, arbitrary: fc.nat(20).map((at) => marker('foreign', 'any', at)) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' }) },
)

interface Mutation {
  readonly kind: 'replace' | 'remove' | 'add' | 'twice'
  readonly at: number
  readonly value: unknown
}

const mutations: fc.Arbitrary<Mutation> = fc.record({
  kind: fc.constantFrom('replace', 'replace', 'remove', 'add', 'twice'),
  at: fc.nat(1000),
  value: hostileValues,
})

/** Changes values in one or two places. */
export function nearly(values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc
    .tuple(values, fc.array(mutations, { minLength: 1, maxLength: 2 }))
    .map(([value, list]) => list.reduce(mutate, value))
}

function mutate(value: unknown, { kind, at, value: hostile }: Mutation): unknown {
  const places = countPlaces(value)
  return change(value, { left: at % places }, kind, hostile)
}

function countPlaces(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  return 1 + Object.values(value).reduce<number>((sum, inner) => sum + countPlaces(inner), 0)
}

const removed = Symbol('removed')

function change(value: unknown, counter: { left: number }, kind: Mutation['kind'], hostile: unknown): unknown {
  if (counter.left === 0) {
    counter.left -= 1
    switch (kind) {
      case 'replace':
        return hostile
      case 'remove':
        return removed
      case 'add':
        return Array.isArray(value)
          ? [...value, hostile]
          : { ...(typeof value === 'object' ? value : {}), unknown_member: hostile }
      case 'twice':
        return Array.isArray(value) && value.length > 0 ? [...value, value[0]] : [value, value]
      default:
        return kind satisfies never
    }
  }
  counter.left -= 1
  if (Array.isArray(value)) return value.map((inner) => change(inner, counter, kind, hostile)).filter(isKept)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, inner]) => [name, change(inner, counter, kind, hostile)] as const)
      .filter(([, inner]) => isKept(inner)),
  )
}

function isKept(value: unknown): boolean {
  return value !== removed
}

export const spoilers: Readonly<Record<string, (json: string) => string | Buffer>> = {
  'a key twice': (json) => inFront(json, '"zz":1,"zz":1'),
  'a key in two spellings': (json) => inFront(json, String.raw`"zz":1,"z\u007a":2`),
  'a key twice further in': (json) => inFront(json, String.raw`"zz":[{"y":{"x":1,"\u0078":2}}]`),
  'a prototype': (json) => inFront(json, '"__proto__":{"is_admin":true}'),
  'a number beyond a double': (json) => inFront(json, '"zz":1e999'),
  'a number of too many digits': (json) => inFront(json, '"zz":9007199254740993'),
  'a lone surrogate': (json) => inFront(json, String.raw`"zz":"\udc00"`),
  'a NUL': (json) => inFront(json, String.raw`"zz":"\u0000"`),
  'too many levels': (json) => inFront(json, `"zz":${'['.repeat(40)}${']'.repeat(40)}`),
  'a comma too many': (json) => `${json.slice(0, -1)},${json.slice(-1)}`,
  'half of it': (json) => json.slice(0, Math.floor(json.length / 2)),
  'something behind': (json) => `${json}{}`,
  'two byte order marks': (json) => `\uFEFF\uFEFF${json}`,
  'bytes that are not UTF-8': (json) => Buffer.concat([Buffer.from(json.slice(0, -1)), Buffer.from([0xc3, 0x28])]),
}

function inFront(json: string, members: string): string {
  const at = json.indexOf('{')
  if (at === -1) return `{${members}}`
  const rest = json.slice(at + 1)
  return `${json.slice(0, at)}{${members}${rest.startsWith('}') ? '' : ','}${rest}`
}
