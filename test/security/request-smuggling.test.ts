/**
 * @promise Edge: No request can be smuggled inside another, and responses never reach the wrong client.
 */

import { randomUUID } from 'node:crypto'
import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { breakOff, sendRaw } from '../support/raw.ts'
import { startSwapper } from '../support/swapper.ts'
import { type Tap, startTap } from '../support/tap.ts'

let stack: TestStack
let gateway: string
/** Records what the gateway sends to the findings service. */
let tap: Tap
let key: string
let otherKey: string

beforeAll(async () => {
  stack = await startTestStack({
    route: async (from, to, url) => {
      if (to !== 'findings' || !from.startsWith('gateway')) return url
      tap = await startTap(Number(new URL(url).port))
      return `http://127.0.0.1:${tap.port}`
    },
  })
  gateway = stack.gateways[0] ?? ''
  const makeKey = async (title: string): Promise<string> => {
    const made = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
    const body = { title, condition: 'x', severity: 'high' }
    expect((await send(gateway, '/api/v1/findings', { key: made, method: 'POST', body })).status).toBe(201)
    return made
  }
  key = await makeKey('of the first')
  otherKey = await makeKey('of the second')
})

afterAll(async () => {
  await stack.stop()
  await tap.close()
})

/** Told apart by it: what is given up may still arrive at the service while something else is tried. */
let attempt = ''
const ownId = (): string => `own-request-${attempt}`
const hiddenId = (): string => `smuggled-request-${attempt}`
const lastId = (): string => `last-request-${attempt}`

const credentials = (): string => `Host: postern\r\nAuthorization: ApiKey ${key}\r\n`
const auth = (): string => `${credentials()}X-Request-Id: ${ownId()}\r\n`
/** The hidden request. It is valid, and must never be executed. */
const hidden = (): string =>
  `GET /api/v1/findings?q=smuggled HTTP/1.1\r\n${credentials()}X-Request-Id: ${hiddenId()}\r\n\r\n`
/** Makes the gateway close the connection. */
const last = (): string =>
  `GET /api/v1/whoami HTTP/1.1\r\n${credentials()}X-Request-Id: ${lastId()}\r\nConnection: close\r\n\r\n`

const finding = '{"title":"x","condition":"x","severity":"low"}'
const post = (framing: string): string =>
  `POST /api/v1/findings HTTP/1.1\r\n${auth()}Content-Type: application/json\r\n${framing}\r\n`
const chunked = 'Transfer-Encoding: chunked\r\n'
const none = '0\r\n\r\n'
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`

interface Result {
  readonly statuses: readonly number[]
  /** Request lines that arrived at the service with an id of this attempt. */
  readonly arrived: readonly string[]
  readonly text: string
}

/** Every request line that has arrived at the service, by the id of its request. */
const everArrived = new Map<string, string[]>()
/** Ids of attempts whose hidden request must never arrive, however late. */
const attacks: string[] = []

function notice(): void {
  // As the gateway writes it, which what was hidden in a body is not.
  for (const [head, line = ''] of tap.take().matchAll(/([A-Z]+ \S+) HTTP\/1\.1\r\nhost: 127\.0\.0\.1[^]*?\r\n\r\n/g)) {
    const id = /\r\nx-request-id: (\S+)/.exec(head)?.[1] ?? ''
    everArrived.set(id, [...(everArrived.get(id) ?? []), line])
  }
}

/** Sends bytes until the connection ends. Retries a 503 of a gateway without a lease. */
async function run(bytes: () => string): Promise<Result> {
  const options = { answers: Infinity, limitMs: 60_000 }
  for (;;) {
    attempt = randomUUID()
    attacks.push(attempt)
    const { statuses, text, closed } = await sendRaw(gateway, Buffer.from(bytes(), 'latin1'), options)
    expect(closed, text).toBe(true)
    notice()
    const arrived = [ownId(), hiddenId(), lastId()].flatMap((id) => everArrived.get(id) ?? [])
    if (!statuses.includes(503)) return { statuses, text, arrived }
  }
}

/** Like `run`, for bytes after the request itself. */
async function runPlainly(bytes: () => string): Promise<Result> {
  const result = await run(bytes)
  attacks.pop()
  return result
}

describe('the control', () => {
  test('the smuggled request is forwarded and answered if it is sent as a normal request', async () => {
    const { statuses, arrived, text } = await runPlainly(() => hidden() + last())
    expect(statuses).toEqual([200, 200])
    expect(arrived).toEqual(['GET /api/v1/findings?q=smuggled'])
    expect(text).toContain(hiddenId())
  })

  test('a plain request before it does not consume it', async () => {
    for (const whole of [
      () => post(`Content-Length: ${finding.length}\r\n`) + finding,
      () => post(chunked) + chunk(finding) + none,
    ]) {
      const { statuses, arrived } = await runPlainly(() => whole() + hidden() + last())
      expect(statuses).toEqual([201, 200, 200])
      expect(arrived).toEqual(['POST /api/v1/findings', 'GET /api/v1/findings?q=smuggled'])
    }
  })
})

const ambiguous: readonly (readonly [what: string, attack: () => string])[] = [
  // CL.TE and TE.CL: one reader goes by the length, the other by the chunks.
  ['a length, then chunks', () => post(`Content-Length: ${none.length + hidden().length}\r\n${chunked}`) + none],
  ['chunks, then a length', () => post(`${chunked}Content-Length: 4\r\n`) + `5c\r\n`],
  ['chunks, and a length of nothing', () => post(`${chunked}Content-Length: 0\r\n`)],
  // TE.TE: one of the two is made unreadable for one of the readers.
  ...[
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
    'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding: chunked, identity',
    'Transfer-Encoding: identity, chunked',
    'Transfer-Encoding: chunked, chunked',
    'Transfer-Encoding: gzip, chunked',
    'Transfer-Encoding: xchunked',
    'Transfer-Encoding: chunkedx',
    'Transfer-Encoding: "chunked"',
    'Transfer-Encoding: chunked;q=1',
    'Transfer-Encoding: ,chunked',
    'Transfer-Encoding: chunked,',
    'Transfer-Encoding: identity',
    'Transfer-Encoding:',
    'Transfer-Encoding : chunked',
    'Transfer-Encoding\t: chunked',
    'Transfer-Encoding: \x0bchunked',
    'Transfer-Encoding: chunked\x00',
    'Transfer-Encoding: chunked\x0c',
    'Transfer-Encoding: \x85chunked',
    'X: y\r\n Transfer-Encoding: chunked',
    'X: y\r\n\tTransfer-Encoding: chunked',
    'X: y\nTransfer-Encoding: chunked',
    'X: y\rTransfer-Encoding: chunked',
    'X: y\r\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding:\r\n chunked',
    'Transfer-Encoding:\n chunked',
    'Transfer-Encoding: chunked\n',
    'Transfer\xadEncoding: chunked',
    'Transfer Encoding: chunked',
  ].map((line) => [JSON.stringify(line), () => post(`${line}\r\n`) + none] as const),
  // A Content-Length that is not one plain number.
  ...[
    'Content-Length: 0\r\nContent-Length: 44',
    'Content-Length: 44\r\nContent-Length: 44',
    'Content-Length: 0\r\ncontent-length: 0',
    'Content-Length: 0, 44',
    'Content-Length: 44, 44',
    'Content-Length: +44',
    'Content-Length: -1',
    'Content-Length: 0x2c',
    'Content-Length: 4 4',
    'Content-Length: 44;',
    'Content-Length: 44.0',
    'Content-Length: 4e1',
    'Content-Length:',
    'Content-Length: "44"',
    'Content-Length: \x0b44',
    'Content-Length: 44\x00',
    'Content-Length : 44',
    'Content-Length\t: 44',
    'Content-Length:\r\n 44',
    'X: y\r\n Content-Length: 44',
    'X: y\nContent-Length: 44',
    'X: y\rContent-Length: 44',
    'Content-Length: 99999999999999999999999',
    'Content-Length: 18446744073709551660',
  ].map((line) => [JSON.stringify(line), () => post(`${line}\r\n`)] as const),
  // Invalid chunks.
  ...[
    '0x0\r\n\r\n',
    '+0\r\n\r\n',
    '-0\r\n\r\n',
    ' 0\r\n\r\n',
    '0 \r\n\r\n',
    '0\n\n',
    '0\r\n\n',
    '0\n\r\n',
    '0\r\r\n\r\n',
    '\r\n0\r\n\r\n',
    ';x=y\r\n\r\n',
    '0;\n\r\n\r\n',
    '0;x=\x00\r\n\r\n',
    '2\r\n{}0\r\n\r\n',
    '2\r\n{}\n0\r\n\r\n',
    '2\r\n{}\r0\r\n\r\n',
    '2\r\n{}xx0\r\n\r\n',
    '2\n{}\r\n0\r\n\r\n',
    '10000000000000000\r\n\r\n',
    '100000000000000002\r\n{}\r\n0\r\n\r\n',
    'g\r\n\r\n',
    '0\r\nX : y\r\n\r\n',
    '0\r\nX: y\nContent-Length: 5\r\n\r\n',
    '0\r\n X: y\r\n\r\n',
  ].map((body) => [`chunks as ${JSON.stringify(body)}`, () => post(chunked) + body] as const),
  // A head that ends where only some readers see its end, and request lines of another kind.
  ['lines that end in a bare LF', () => `GET /api/v1/findings HTTP/1.1\nHost: a\n\n`],
  ['a head that ends in a bare LF', () => post('Content-Length: 0').replace(/\r\n$/, '\n\n')],
  ['a head that ends in CR and another byte', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}\rX: y\r\n\r\n`],
  ['a line without a colon', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}Content-Length 44\r\n\r\n`],
  ['a name with a space', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}X y: 1\r\n\r\n`],
  ['a name with NUL', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}X\x00: 1\r\n\r\n`],
  ['no name', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}: 1\r\n\r\n`],
  ['a folded line at the start', () => `GET /api/v1/findings HTTP/1.1\r\n Host: x\r\n${auth()}\r\n`],
  ['two versions', () => `GET /api/v1/findings HTTP/1.1 HTTP/1.1\r\n${auth()}\r\n`],
  ['no version', () => `GET /api/v1/findings\r\n`],
  ['version 2.0', () => `GET /api/v1/findings HTTP/2.0\r\n${auth()}\r\n`],
  ['version 1.2', () => `GET /api/v1/findings HTTP/1.2\r\n${auth()}\r\n`],
  ['a version in lower case', () => `GET /api/v1/findings http/1.1\r\n${auth()}\r\n`],
  ['a space at the start', () => ` GET /api/v1/findings HTTP/1.1\r\n${auth()}\r\n`],
  ['a target with a tab', () => `GET /api/v1/findings\tx HTTP/1.1\r\n${auth()}\r\n`],
  ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
]

describe('ambiguous framing is rejected, and the connection closes before the hidden request', () => {
  test.each(ambiguous)('%s', async (_what, attack) => {
    const { statuses, arrived, text } = await run(() => attack() + hidden() + last())
    expect(text).not.toContain(hiddenId())
    expect(text).not.toContain(lastId())
    // Its head may have been passed on before its chunks were seen; it never came to its end.
    expect([[], ['POST /api/v1/findings']]).toContainEqual(arrived)
    expect(statuses).toHaveLength(1)
    expect([400, 413, 501, 505]).toContain(statuses[0])
  })
})

describe('a request hidden in a body stays part of the body', () => {
  test.each([
    [
      'of a request that takes none, by its length',
      () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}Content-Length: ${hidden().length}\r\n\r\n${hidden()}`,
    ],
    [
      'of a request that takes none, in chunks',
      () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}${chunked}\r\n${chunk(hidden())}${none}`,
    ],
    [
      'of a request without a route',
      () => `POST /api/v1/none HTTP/1.1\r\n${auth()}Content-Length: ${hidden().length}\r\n\r\n${hidden()}`,
    ],
    [
      'of a request without credentials',
      () => `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden().length}\r\n\r\n${hidden()}`,
    ],
    [
      'of a request that the gateway answers itself',
      () => `GET /api/v1/whoami HTTP/1.1\r\n${auth()}Content-Length: ${hidden().length}\r\n\r\n${hidden()}`,
    ],
    ['that the service refuses', () => `${post(`Content-Length: ${hidden().length}\r\n`)}${hidden()}`],
    ['with leading zeros in its length', () => `${post(`Content-Length: 000${hidden().length}\r\n`)}${hidden()}`],
    ['in an extension of a chunk', () => `${post(chunked)}2;x="${encodeURIComponent(hidden())}"\r\n{}\r\n${none}`],
    [
      'in a trailer',
      () => `${post(chunked)}2\r\n{}\r\n0\r\nX: ${encodeURIComponent(hidden())}\r\nContent-Length: 0\r\n\r\n`,
    ],
    [
      'in a request that waits for 100 Continue',
      () => `${post(`Expect: 100-continue\r\nContent-Length: ${hidden().length}\r\n`)}${hidden()}`,
    ],
    [
      'of a request that wishes to change the protocol',
      () =>
        `${post(`Connection: close, Upgrade\r\nUpgrade: websocket\r\nContent-Length: ${hidden().length}\r\n`)}${hidden()}`,
    ],
  ])('%s', async (_what, attack) => {
    const { arrived, text } = await run(() => attack() + last())
    expect(text).not.toContain(hiddenId())
    expect([[], ['GET /api/v1/findings'], ['POST /api/v1/findings']]).toContainEqual(arrived)
  })
})

/** Asks for a list as one of two tenants, in a way that the answer names the request and the tenant. */
const ask = (own: string, id: string): string =>
  `GET /api/v1/findings?sort=created_at HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${own}\r\nX-Request-Id: ${id}\r\n\r\n`

/** Asks as one of the two tenants, and sees that the answer is the one to this very request. */
async function askRightly(at: number, origin = gateway): Promise<unknown> {
  const isFirst = at % 2 === 0
  const id = `steady-request-${at}`
  const own = { key: isFirst ? key : otherKey, headers: { 'x-request-id': id } }
  let answer = await send(origin, '/api/v1/findings?sort=created_at', own)
  while (answer.status === 503) answer = await send(origin, '/api/v1/findings?sort=created_at', own)
  expect([answer.status, answer.headers['x-request-id']]).toEqual([200, id])
  expect(answer.text).toContain(isFirst ? 'of the first' : 'of the second')
  expect(answer.text).not.toContain(isFirst ? 'of the second' : 'of the first')
  return answer.headers['x-request-id']
}

describe('responses never reach another request', () => {
  test('control: swapped responses or bodies are detected', async () => {
    // That nothing shows where he swaps nothing: it is not the way through him.
    const seen = { answer: 2, body: 2, nothing: 0 } as const
    for (const what of ['answer', 'body', 'nothing'] as const) {
      await using swapper = await startSwapper(gateway, what)
      const asked = await Promise.allSettled([askRightly(1000, swapper.url), askRightly(1001, swapper.url)])
      expect(asked.filter(({ status }) => status === 'rejected')).toHaveLength(seen[what])
    }
  })

  test('if requests of two tenants arrive in one piece on one connection', async () => {
    const asked = Array.from({ length: 40 }, (_, at) => ({
      id: `pipelined-request-${at}`,
      title: at % 2 === 0 ? 'of the first' : 'of the second',
      status: at % 5 === 4 ? 404 : 200,
    }))
    const bytes = asked.map(({ id, title, status }) => {
      const own = ask(title === 'of the first' ? key : otherKey, id)
      return status === 200 ? own : own.replace('/findings', '/none')
    })
    const answers = (await runPlainly(() => bytes.join('') + last())).text.split(/(?=HTTP\/1\.1 \d{3} )/)
    expect(answers).toHaveLength(asked.length + 1)
    const expectOwn = (given: readonly string[]): void => {
      for (const [at, { id, title, status }] of asked.entries()) {
        const answer = given[at] ?? ''
        expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
        expect(answer).toContain(`x-request-id: ${id}\r\n`)
        expect(answer.includes('"title":"of the')).toBe(status === 200)
        if (status === 200) expect(answer).toContain(`"title":"${title}"`)
      }
    }
    expectOwn(answers)
    // The control: two of them in each other's place are seen.
    const [first = '', second = '', ...others] = answers
    expect(() => expectOwn([second, first, ...others])).toThrow('pipelined-request-0')
  })

  test('if clients disconnect halfway and others then use the same connections', async () => {
    const body = finding.replace('"x"', `"${'y'.repeat(200)}"`)
    const whole = post(`Content-Length: ${body.length}\r\n`) + body
    const broken = async (at: number): Promise<void> => {
      const bytes = at % 2 === 0 ? ask(key, `broken-request-${at}`).repeat(3) : whole
      await breakOff(gateway, bytes.slice(0, 1 + ((at * 37) % bytes.length)), at % 3 === 0)
    }
    const ids = Array.from({ length: 120 }, async (_, at) => (await Promise.all([askRightly(at), broken(at)]))[0])
    expect(new Set(await Promise.all(ids)).size).toBe(120)
  })

  test('if the service answers before it has read the body of an earlier request', async () => {
    for (let round = 0; round < 5; round += 1) {
      const cut = breakOff(gateway, post('Content-Length: 1000\r\n') + '{"title":', false)
      const body = 'x'.repeat(300_000)
      const headers = { 'content-type': 'application/json' }
      const refused = await send(gateway, '/api/v1/findings', { key, method: 'POST', body, headers })
      expect([400, 503]).toContain(refused.status)
      await cut
      await askRightly(round)
    }
  })
})

describe('endless requests are ended', () => {
  test.each([
    ['a chunk with an extension', () => `${post(chunked)}2;${'x'.repeat(100_000)}`],
    ['trailers', () => `${post(chunked)}${chunk(finding)}0\r\n${'X: y\r\n'.repeat(20_000)}`],
    ['headers', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}${'X: y\r\n'.repeat(20_000)}`],
    ['a name of a header', () => `GET /api/v1/findings HTTP/1.1\r\n${auth()}${'x'.repeat(100_000)}`],
    ['a target', () => `GET /api/v1/findings?q=${'x'.repeat(100_000)}`],
    ['a method', () => 'G'.repeat(100_000)],
    ['empty lines before a request', () => '\r\n'.repeat(1_000_000) + hidden().replace('GET', 'GE')],
  ])('%s', async (_what, attack) => {
    const { statuses } = await run(attack)
    expect([400, 413, 414, 431]).toContain(statuses[0] ?? 400)
    expect(statuses.length).toBeLessThanOrEqual(1)
  })
})

test('no hidden request has arrived later, and no request arrived twice', () => {
  notice()
  expect(attacks.length).toBeGreaterThan(ambiguous.length)
  const hiddenIds = new Set(attacks.map((each) => `smuggled-request-${each}`))
  expect([...everArrived.keys()].filter((id) => hiddenIds.has(id))).toEqual([])
  const ownIds = attacks.map((each) => `own-request-${each}`)
  expect(ownIds.filter((id) => (everArrived.get(id) ?? []).length > 1)).toEqual([])
  // The control: those of the first tests have.
  expect([...everArrived.keys()].filter((id) => id.startsWith('smuggled-request-')).length).toBeGreaterThan(0)
})
