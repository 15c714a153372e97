import { expect, test } from 'vitest'
import { z } from 'zod'
import { inputErrors } from './input-errors.ts'

const schema = z.strictObject({
  text: z.string().min(2).max(4),
  some: z.array(z.string()).max(1),
  count: z.int().min(1).max(9),
  kind: z.enum(['a', 'b']),
  day: z.iso.date(),
  at: z.iso.datetime(),
  id: z.uuid(),
  email: z.email(),
  flag: z.boolean(),
  either: z.union([z.string(), z.number()]),
  forms: z.union([z.string(), z.object({ name: z.string() })]),
  own: z.string().regex(/^x$/, 'must be x'),
})

/** Returns the message for each member. */
function saidOf(value: unknown): Record<string, string> {
  const parsed = schema.safeParse(value)
  const errors = parsed.error === undefined ? [] : inputErrors(parsed.error, 'body')
  return Object.fromEntries(errors.map(({ pointer = '', detail }) => [pointer, detail ?? '']))
}

test('messages about a value follow its name', () => {
  const good = {
    text: 'abc',
    some: [],
    count: 1,
    kind: 'a',
    day: '2026-11-21',
    at: '2026-11-21T00:00:00Z',
    id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
    email: 'a@x.example',
    flag: true,
    either: 1,
    forms: 'a',
    own: 'x',
  }
  expect(saidOf(good)).toEqual({})
  expect(
    saidOf({
      text: 'a',
      some: ['a', 'b'],
      count: 1.5,
      kind: 'c',
      day: '2026-02-30',
      at: 'now',
      id: 'x',
      email: 'x',
      flag: 'true',
      either: null,
      forms: { name: 1 },
      own: 'y',
      more: 1,
    }),
  ).toEqual({
    '/text': 'must have at least 2 characters',
    '/some': 'must have at most 1 item',
    '/count': 'must be a whole number',
    '/kind': 'must be one of a, b',
    '/day': 'must be a calendar date such as 2026-11-21',
    '/at': 'must be a valid time with Z or an offset (RFC 3339), such as 2026-11-21T09:30:00Z',
    '/id': 'must be a UUID',
    '/email': 'must be an e-mail address',
    '/flag': 'must be true or false',
    '/either': 'must be text or a number',
    '/forms': 'must match one of the allowed forms',
    '/own': 'must be x',
    '/more': 'is not a field of this resource',
  })
  expect(saidOf({ ...good, text: 'abcde', count: 10 })).toEqual({
    '/text': 'must have at most 4 characters',
    '/count': 'must be at most 9',
  })
  expect(saidOf({ ...good, text: 1, kind: undefined, count: undefined })).toMatchObject({
    '/text': 'must be text',
    '/count': 'is missing',
  })
})

test('a repeated parameter is reported, except one that may be repeated', () => {
  const query = z.strictObject({
    limit: z.string().regex(/^[0-9]+$/),
    sort: z.enum(['a', 'b']),
    flag: z.union([z.literal('true'), z.literal('false')]),
    each: z.union([z.string(), z.array(z.string().max(2)).max(2)]),
  })
  const good = { limit: '1', sort: 'a', flag: 'true', each: 'a' }
  const said = (value: object): unknown[] => {
    const parsed = query.safeParse({ ...good, ...value })
    const errors =
      parsed.error === undefined ? [] : inputErrors(parsed.error, 'parameter', { value: { ...good, ...value } })
    return errors.map(({ parameter, code, detail }) => [parameter, code, detail])
  }
  expect(said({ each: ['a', 'b'] })).toEqual([])
  for (const name of ['limit', 'sort', 'flag']) {
    expect(said({ [name]: ['a', 'a'] })).toEqual([[name, 'repeated', 'must occur once']])
  }
  for (const each of [['abc'], ['a', 'b', 'c']]) {
    expect(said({ each })).toEqual([['each', expect.not.stringContaining('repeated'), expect.anything()]])
  }
  expect(said({ limit: 'x' })).not.toEqual([['limit', 'repeated', 'must occur once']])
})

test('for a time in a query whose + became a space, the message explains the encoding', () => {
  const query = z.strictObject({ since: z.iso.datetime({ offset: true }) })
  const said = (since: string): unknown[] => {
    const parsed = query.safeParse({ since })
    const errors = parsed.error === undefined ? [] : inputErrors(parsed.error, 'parameter', { value: { since } })
    return errors.map(({ detail }) => detail)
  }
  const words = 'must be a valid time with Z or an offset (RFC 3339), such as 2026-11-21T09:30:00Z'
  expect(said('2026-11-01T00:00:00 01:00')).toEqual([
    `${words}; write a + as %2B in a query, because + means a space there`,
  ])
  for (const since of ['2026-11-01', '2026-11-01T00:00:00', '2026-13-01T00:00:00Z', '2026-11-01 00:00:00']) {
    expect(said(since), since).toEqual([words])
  }
  expect(said('2026-11-01T00:00:00+01:00')).toEqual([])
})

/** One value for each kind of issue that zod has, and for each of its forms that we know. */
const faulty: Readonly<Record<string, readonly (readonly [z.ZodType, unknown])[]>> = {
  invalid_type: [
    [z.string(), 1],
    [z.int(), 1.5],
    [z.number(), Number.NaN],
    [z.bigint(), 'x'],
    [z.object({ a: z.string() }), {}],
    [z.tuple([z.string()]), 'x'],
    [z.never(), 1],
    [z.date(), 1],
    [z.map(z.string(), z.string()), {}],
    [z.instanceof(Map), 1],
  ],
  too_big: [
    [z.string().max(255), 'x'.repeat(256)],
    [z.array(z.string()).max(1), ['a', 'b']],
    [z.number().lt(3), 3],
    [z.set(z.string()).max(0), new Set(['a'])],
    [z.tuple([z.string()]), ['a', 'b']],
    [z.string().length(2), 'abc'],
    [z.date().max(new Date(0)), new Date(1)],
    [z.file().max(1), new File(['ab'], 'a')],
  ],
  too_small: [
    [z.string().min(1), ''],
    [z.array(z.string()).min(1), []],
    [z.number().gt(3), 3],
  ],
  invalid_format: [
    [z.email(), 'x'],
    [z.url(), 'x'],
    [z.uuid(), 'x'],
    [z.ipv4(), 'x'],
    [z.cidrv6(), 'x'],
    [z.iso.time(), 'x'],
    [z.iso.duration(), 'x'],
    [z.base64(), '*'],
    [z.jwt(), 'x'],
    [z.emoji(), 'x'],
    [z.string().startsWith('a'), 'x'],
    [z.string().endsWith('a'), 'x'],
    [z.string().includes('a'), 'x'],
    [z.string().regex(/^a$/), 'x'],
    [z.string().lowercase(), 'X'],
    [z.templateLiteral(['a', z.number()]), 'x'],
  ],
  not_multiple_of: [[z.number().multipleOf(5), 3]],
  unrecognized_keys: [[z.strictObject({}), { more: 1 }]],
  invalid_union: [
    [z.union([z.string(), z.number()]), null],
    [z.discriminatedUnion('kind', [z.object({ kind: z.literal('a') })]), { kind: 'b' }],
    [z.xor([z.string(), z.string().min(1)]), 'a'],
  ],
  invalid_key: [[z.record(z.string().min(2), z.string()), { a: 'x' }]],
  invalid_element: [[z.map(z.bigint(), z.string()), new Map([[1n, 1]])]],
  invalid_value: [
    [z.enum(['a', 'b']), 'c'],
    [z.literal('a'), 'b'],
    [z.stringbool(), 'maybe'],
  ],
  custom: [[z.string().refine(() => false), 'x']],
}

test('no message has zod’s own words, whatever the kind of issue', () => {
  for (const [code, cases] of Object.entries(faulty)) {
    for (const [type, value] of cases) {
      const { error } = z.object({ member: type }).safeParse({ member: value })
      const issues = error?.issues ?? []
      const said = issues.map(({ message }) => message).join('; ')
      expect(issues[0]?.code, `${code}: ${said}`).toBe(code)
      for (const { detail = '' } of error === undefined ? [] : inputErrors(error, 'body')) {
        expect(detail, code).toMatch(/^(?:must |is |may |has |holds )/)
        expect(detail, code).not.toMatch(/invalid|expected|received|too (?:big|small)|unrecogni[sz]ed|undefined/i)
      }
    }
  }
})

test('an unknown name or word is compared with those that are known', () => {
  const body = z.strictObject({
    title: z.string().optional(),
    owner: z.strictObject({ person_id: z.string().optional() }).optional(),
    rows: z.array(z.strictObject({ external_id: z.string().optional() })).optional(),
    severity: z.enum(['critical', 'high']).optional(),
  })
  const said = (value: object): unknown[] => {
    const { error } = body.safeParse(value)
    return error === undefined ? [] : inputErrors(error, 'body', { value, schema: body }).map(({ detail }) => detail)
  }
  expect(said({ tittle: 'x' })).toEqual(['is not a field of this resource; did you mean `title`?'])
  expect(said({ owner: { personId: 'x' } })).toEqual(['is not a field of this resource; did you mean `person_id`?'])
  expect(said({ rows: [{ externalID: 'x' }] })).toEqual([
    'is not a field of this resource; did you mean `external_id`?',
  ])
  expect(said({ unlike: 'x' })).toEqual([
    'is not a field of this resource; the fields are title, owner, rows, severity',
  ])
  expect(said({ id: 'x' })).toEqual(['is set by Postern: leave it out'])
  expect(said({ rows: [{ id: 'x' }] })).toEqual(['is set by Postern: leave it out'])
  expect(said({ owner: { id: 'x' } })).toEqual(['is not a field of this resource; the fields are person_id'])
  expect(said({ data: { title: 'x' } })).toEqual([
    'is not a field of this resource; send its fields without `data` around them',
  ])
  const needy = z.strictObject({ title: z.string(), condition: z.string(), cause: z.string(), severity: z.string() })
  const first = (value: object): unknown => {
    const { error } = needy.safeParse(value)
    return error === undefined ? undefined : inputErrors(error, 'body', { value, schema: needy })[0]?.detail
  }
  expect(first({ title: 'x' })).toBe('is missing')
  expect(first({ value: { title: 'x' } })).toBe(
    'is not a field of this resource; send its fields without `value` around them',
  )
  expect(first({ data: [{ title: 'x' }] })).toBe(
    'is not a field of this resource; send one at a time, without `data` around it',
  )
  expect(said({ owner: 'x' })).toEqual(['must be an object with person_id'])
  expect(said({ severity: 'High' })).toEqual(['must be one of critical, high; did you mean `high`?'])
  expect(said({ severity: 3 })).toEqual(['must be one of critical, high'])
})

test('an unknown parameter for pages is told how to read them', () => {
  const query = z.strictObject({ cursor: z.string().optional(), limit: z.string().optional() })
  const said = (value: object): unknown[] => {
    const { error } = query.safeParse(value)
    return error === undefined
      ? []
      : inputErrors(error, 'parameter', { value, schema: query }).map(({ detail }) => detail)
  }
  expect(said({ page: '2' })[0]).toContain('the header `Link` has the address of the next page')
  for (const name of ['per_page', '$top', 'page[size]', 'filter[limit]', 'amp;limit']) {
    expect(said({ [name]: '2' })[0]).toContain('did you mean `limit`?')
  }
  expect(said({ colour: '2' })[0]).toMatch(/; the parameters are cursor, limit$/)
})

test('a field with a path of its own is told where to change it', () => {
  const body = z.strictObject({ title: z.string().optional() })
  const { error } = body.safeParse({ status: 'open' })
  const [said] = error === undefined ? [] : inputErrors(error, 'body', { schema: body, path: '/api/v1/findings/:id' })
  expect(said?.detail).toBe('is not a field of this resource; change it with POST /api/v1/findings/{id}/status')
})

test('a word among several values is compared with the allowed ones', () => {
  const query = z.strictObject({
    fields: z
      .string()
      .transform((text) => text.split(','))
      .pipe(z.array(z.enum(['id', 'title']))),
  })
  const value = { fields: 'id,tittle' }
  const { error } = query.safeParse(value)
  const [said] = error === undefined ? [] : inputErrors(error, 'parameter', { value, schema: query })
  expect(said?.detail).toBe('must be one of id, title; did you mean `title`?')
})
