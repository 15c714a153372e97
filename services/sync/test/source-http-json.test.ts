import { expect, test } from 'vitest'
import { gzipSync } from 'node:zlib'
import { useJsonSource } from './json-source-support.ts'
import { failureOf, readSource } from './source-support.ts'

const { answers, outbound, server, ids, refusal, always } = useJsonSource()

/** Answers pages of a list, by the number in the query. */
function page(number: (query: URLSearchParams) => number, toBody: (items: object[], last: boolean) => unknown) {
  answers['/people'] = (request, response) => {
    const at = number(new URL(request.url ?? '', server().url).searchParams)
    const items = at <= 3 ? [{ id: `${at}a` }, { id: `${at}b` }] : []
    response.end(JSON.stringify(toBody(items, at === 3)))
  }
}

const after = (query: URLSearchParams): number => Number(query.get('after') ?? 1)

/** Two pages, and this as the third. */
function thenBroken(third: string): void {
  let asked = 0
  answers['/people'] = (_, response) => {
    asked += 1
    response.end(asked < 3 ? `[{"id":${asked}}]` : third)
  }
}

const all = ['1a', '1b', '2a', '2b', '3a', '3b']

test('a source that returns a web page, broken JSON or no list is rejected', async () => {
  always('<html><body>Sign in</body></html>')
  expect(await refusal()).toBe('not_json')
  always('[{"id": 1},')
  expect(await refusal()).toBe('not_json')
  always({ error: 'none' })
  expect(await refusal({ items: '/data' })).toBe('items_missing')
})

test('a broken page is named by its number', async () => {
  const options = { config: { url: `${server().url}/people`, paging: { kind: 'page' } }, outbound }
  for (const broken of ['<html>', '[{', `[${'1,'.repeat(600)}1]`]) {
    thenBroken(broken)
    const { message } = await failureOf('http_json', { ...options, limits: { maxPageBytes: 1000 } })
    expect(message).toContain('page 3 ')
  }
})

test('a source whose pages never end is rejected', async () => {
  always([{ id: 'same' }])
  expect(await refusal({ paging: { kind: 'page' } })).toBe('paging_endless')
  expect(server().asked).toHaveLength(2)
  let count = 0
  answers['/people'] = (_, response) => response.end(JSON.stringify({ items: [{ id: count }], next: ++count }))
  const paging = { kind: 'cursor', next: '/next' }
  expect(await refusal({ items: '/items', paging }, { maxPages: 5 })).toBe('paging_endless')
  expect(count).toBe(5)
  expect(await refusal({ items: '/items', paging }, { maxRows: 3 })).toBe('too_many_rows')
})

test('a source that links to an earlier page is rejected', async () => {
  const by = { cursor: { kind: 'cursor', parameter: 'after', next: '/next' }, link: { kind: 'link' } }
  for (const paging of Object.values(by)) {
    // 1, 2, 3, 2, 3, …; the rest of the response differs each time.
    for (const [isEmpty, third] of [
      [false, 2],
      [true, 2],
      [false, 3],
      [true, 1],
    ] as const) {
      server().asked.length = 0
      answers['/people'] = (request, response) => {
        const at = after(new URL(request.url ?? '', server().url).searchParams)
        const next = at < 3 ? at + 1 : third
        const items = isEmpty ? [] : [{ id: server().asked.length }]
        response.setHeader('link', `<${server().url}/people?after=${next}>; rel="next"`)
        response.end(JSON.stringify({ items, next, at: server().asked.length }))
      }
      const url = `${server().url}/people?after=1`
      expect(await refusal({ url, items: '/items', paging })).toBe('paging_endless')
      expect(server().asked).toEqual([1, 2, 3].map((number) => `/people?after=${number}`))
    }
  }
})

test('a source that repeats its last page for higher numbers is rejected, even if a time differs', async () => {
  page(
    (query) => Math.min(3, Number(query.get('page'))),
    (items) => ({ items, at: server().asked.length }),
  )
  expect(await refusal({ items: '/items', paging: { kind: 'page' } })).toBe('paging_endless')
  expect(server().asked).toHaveLength(4)
  // Of items that cannot be read the one is not taken for the other.
  let count = 0
  answers['/people'] = (_, response) => response.end(JSON.stringify(count < 3 ? [`text ${count++}`] : []))
  expect(await ids({ paging: { kind: 'page' } })).toEqual(['item_not_object', 'item_not_object', 'item_not_object'])
})

test('a next page at another origin is not requested, so that the origin gets no credentials', async () => {
  always({ items: [{ id: 1 }], next: 'https://elsewhere.test/steal' })
  expect(await refusal({ items: '/items', paging: { kind: 'cursor', next: '/next' } })).toBe('page_elsewhere')
  always([{ id: 1 }], { link: '<http://127.0.0.2/>; rel="next"' })
  expect(await refusal({ paging: { kind: 'link' } })).toBe('page_elsewhere')
})

test('a page that is too large is rejected, and so are pages that are too large together', async () => {
  always(`[${'{"id":"x"},'.repeat(10_000)}{}]`)
  expect(await refusal({}, { maxPageBytes: 100_000 })).toBe('page_too_large')
  let count = 0
  answers['/people'] = (_, response) => response.end(JSON.stringify([{ id: count++, text: 'x'.repeat(1000) }]))
  expect(await refusal({ paging: { kind: 'page' } }, { maxBytes: 10_000 })).toBe('source_too_large')
})

test('a source or token endpoint that asks for too long a delay gets no second request', async () => {
  for (const status of [429, 503]) {
    server().asked.length = 0
    answers['/people'] = (_, response) => response.writeHead(status, { 'retry-after': '3600' }).end()
    const failure = await failureOf('http_json', { config: { url: `${server().url}/people` }, outbound })
    expect(failure).toMatchObject({ code: status === 429 ? 'source_throttles' : 'source_failing', retryable: true })
    answers['/token'] = answers['/people']
    const auth = { kind: 'oauth_client_credentials', token_url: `${server().url}/token`, client_id: 'postern' }
    expect(await refusal({ auth }, {}, { client_secret: 'x' })).toBe(failure.code)
    expect(server().asked).toEqual(['/people', '/token'])
  }
  server().asked.length = 0
  answers['/people'] = (_, response) => response.writeHead(429, { 'retry-after': '0' }).end()
  expect(await refusal()).toBe('source_throttles')
  expect(server().asked).toHaveLength(5)
})

test('a source that fails every time is rejected after three requests', async () => {
  answers['/people'] = (_, response) => response.destroy()
  expect(await refusal()).toBe('source_cut_off')
  expect(server().asked).toHaveLength(3)
})

test('an item that is no object, is nested too deep, is too large or has invalid text is an error, and the next one is read', async () => {
  let deep: unknown = 'x'
  for (let level = 0; level < 40; level++) deep = { deep }
  always([
    'text',
    { id: 'deep', deep },
    { id: 'nul', name: 'a\0b' },
    { id: 'long', text: 'x'.repeat(100_001) },
    { id: 'wide', list: Array.from({ length: 10_001 }, () => 1) },
    { id: 'ok' },
  ])
  const codes = ['item_not_object', 'nested_too_deep', 'control_character', 'value_too_long', 'too_many_values']
  expect(await ids({})).toEqual([...codes, 'ok'])
})

test('an item with invalid UTF-8 or half a character anywhere is an error, and the next one is read', async () => {
  const items =
    '[{"id":"1","name":"M\u00fcller"},{"id":"2","name":"\\ud800"},{"id":"3","of":{"\\udc00":1}},{"id":"ok"}]'
  answers['/people'] = (_, response) => response.writeHead(200).end(Buffer.from(items, 'latin1'))
  const read = await readSource('http_json', { config: { url: `${server().url}/people` }, outbound })
  const broken = ['name', 'name', 'of'].map((field, at) => ({ row: at + 1, field, code: 'encoding_broken' }))
  expect(read).toMatchObject([...broken, { kind: 'row', values: { id: 'ok' } }])
})

test('an item that repeats a name is an error, however the name is escaped', async () => {
  const items = [
    '{"id":"1","name":"a","n\\u0061me":"b"}',
    '{"id":"2","of":[{"x":{"y":1}},{"x":{"y":1},"x":{"y":2}}]}',
    '{"id":"3","id":"4"}',
    '{"id":"ok","of":{"id":1},"text":"\\"id\\":{\\"id\\":","list":["id","id"]}',
  ]
  always(`{"list":[${items.join()}]}`)
  const read = await readSource('http_json', { config: { url: `${server().url}/people`, items: '/list' }, outbound })
  const [first, second, third, last] = read
  expect(first).toMatchObject({ row: 1, field: 'name', code: 'duplicate_key', values: { id: '1' } })
  expect(second).toMatchObject({ row: 2, field: 'of', code: 'duplicate_key', values: { id: '2' } })
  expect(third).toMatchObject({ row: 3, field: 'id', code: 'duplicate_key' })
  expect(third?.values).toEqual({})
  expect(last).toMatchObject({ kind: 'row', values: { id: 'ok' } })
  for (const beside of [
    '{"next":1,"list":[],"next":2}',
    '{"list":[{}],"list":[]}',
    '{"list":[],"a":[{"b":1,"b":1}]}',
  ]) {
    always(beside)
    expect(await refusal({ items: '/list' })).toBe('duplicate_key')
  }
})

test('an item with a number out of JavaScript’s range is an error that shows the number', async () => {
  const items = [
    '{"id":1e400}',
    '{"id":"2","of":[{"x":-2.5E+999}]}',
    '{"id":"3","small":1e-400}',
    '{"id":"ok","n":0e400}',
  ]
  always(`{"list":[${items.join()}],"total":1e400}`)
  const read = await readSource('http_json', { config: { url: `${server().url}/people`, items: '/list' }, outbound })
  const code = 'inexact_number'
  expect(read).toMatchObject([
    { kind: 'error', row: 1, field: 'id', code, excerpt: '1e400', values: {} },
    { kind: 'error', row: 2, field: 'of', code, excerpt: '-2.5E+999', values: { id: '2' } },
    { kind: 'error', row: 3, field: 'small', code, excerpt: '1e-400', values: { id: '3' } },
    { kind: 'row', values: { id: 'ok', n: 0 } },
  ])
  expect(read[0]?.values).toEqual({})
})

test('a document that is nested a million times ends only the read', async () => {
  always(`${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`)
  expect(await ids({})).toEqual(['item_not_object'])
})

test('a list inside of the response is read', async () => {
  always({ data: { 'a/b': [{ id: 1 }, { id: 2, manager: { id: 1 } }] } })
  expect(
    await readSource('http_json', { config: { url: `${server().url}/people`, items: '/data/a~1b' }, outbound }),
  ).toEqual([
    { kind: 'row', row: 1, values: { id: 1 } },
    { kind: 'row', row: 2, values: { id: 2, manager: { id: 1 } } },
  ])
})

test('pages by number are read until one is empty', async () => {
  page(
    (query) => Number(query.get('p')),
    (items) => items,
  )
  expect(await ids({ url: `${server().url}/people?sort=id`, paging: { kind: 'page', parameter: 'p' } })).toEqual(all)
  expect(server().asked).toEqual([1, 2, 3, 4].map((number) => `/people?sort=id&p=${number}`))
})

test('pages by offset are all read', async () => {
  page(
    (query) => Number(query.get('offset')) / 2 + 1,
    (items) => items,
  )
  expect(await ids({ paging: { kind: 'page', parameter: 'offset', first: 0, step: 2 } })).toEqual(all)
})

test('pages by cursor are all read, and the cursor may be a URL', async () => {
  let number = 1
  page(after, (items, last) => ({ items, next: last ? null : ++number }))
  const paging = { kind: 'cursor', parameter: 'after', next: '/next' }
  expect(await ids({ items: '/items', paging })).toEqual(all)
  number = 1
  page(after, (items, last) => ({
    value: items,
    ...(last ? {} : { '@odata.nextLink': `${server().url}/people?after=${++number}` }),
  }))
  expect(await ids({ items: '/value', paging: { kind: 'cursor', next: '/@odata.nextLink' } })).toEqual(all)
})

test('pages by cursor are read even if some of them are empty', async () => {
  answers['/people'] = (request, response) => {
    const at = after(new URL(request.url ?? '', server().url).searchParams)
    response.end(JSON.stringify({ items: at === 2 || at === 3 ? [] : [{ id: at }], next: at < 5 ? at + 1 : null }))
  }
  expect(await ids({ items: '/items', paging: { kind: 'cursor', parameter: 'after', next: '/next' } })).toEqual([
    1, 4, 5,
  ])
})

test('pages by Link header are all read', async () => {
  answers['/people'] = (request, response) => {
    const at = Number(new URL(request.url ?? '', server().url).searchParams.get('page') ?? 1)
    if (at < 3)
      response.setHeader('link', [`</people>; rel="first"`, `</people?page=${at + 1}>; title="a, b"; rel="next"`])
    response.end(JSON.stringify([{ id: `${at}a` }, { id: `${at}b` }]))
  }
  expect(await ids({ paging: { kind: 'link' } })).toEqual(all)
})

test('a server that throttles, compresses and sometimes disconnects is read completely', async () => {
  let asked = 0
  answers['/people'] = (request, response) => {
    asked++
    const at = Number(new URL(request.url ?? '', server().url).searchParams.get('page'))
    if (asked % 3 === 1) response.writeHead(429, { 'retry-after': '0' }).end()
    else if (asked === 5) response.destroy()
    else {
      const items = at <= 3 ? [{ id: `${at}a` }, { id: `${at}b` }] : []
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(JSON.stringify(items)))
    }
  }
  expect(await ids({ paging: { kind: 'page' } })).toEqual(all)
})

test('keys with more digits than JavaScript can represent are read exactly', async () => {
  always('[{"id": 12345678901234567890, "share": 0.12345678901234567, "text": "12345678901234567890"}]')
  const [item] = await readSource('http_json', { config: { url: `${server().url}/people` }, outbound })
  expect(item).toMatchObject({ values: { id: '12345678901234567890', share: Number('0.12345678901234567') } })
  const others = String.raw`{"id": -12345678901234567, "exact": 9007199254740991, "power": 12345678901234567e2, "a\"1": [1234567890123456789]}`
  always(`[${others}]`)
  expect(await readSource('http_json', { config: { url: `${server().url}/people` }, outbound })).toMatchObject([
    {
      values: {
        id: '-12345678901234567',
        exact: 9007199254740991,
        power: '12345678901234567e2',
        'a"1': ['1234567890123456789'],
      },
    },
  ])
})

test.each([
  ['12345678901234567.0', '12345678901234567.0'],
  ['9007199254740993.0', '9007199254740993.0'],
  ['-9007199254740993.00e0', '-9007199254740993.00e0'],
  ['123456789012345678e2', '123456789012345678e2'],
  ['1.2345678901234567e18', '1.2345678901234567e18'],
  ['1234567.89012345678901234567', '1234567.89012345678901234567'],
  ['12.0000000000000000000', 12],
  ['9007199254740992.0', 9_007_199_254_740_992],
  ['0.30000000000000004', 0.300_000_000_000_000_04],
  ['1e21', 1e21],
  ['1.7976931348623157e308', 1.797_693_134_862_315_7e308],
])('a number keeps its digits: %s', async (number, read) => {
  const text = `in a text: ${number}`
  always(`[{"text":"${text}","list":[ ${number} ],"id":${number}}]`)
  const [item] = await readSource('http_json', { config: { url: `${server().url}/people` }, outbound })
  expect(item?.values).toEqual({ text, list: [read], id: read })
})
