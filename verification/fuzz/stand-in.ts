import { problemDocument } from '@postern/contracts'
import { startTestProxy } from '@postern/local-stack/testing'

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** Faults that the fuzzer must detect. `canary` is a text of another tenant. */
export type Wrong = keyof typeof wrongs

type Twist = (answer: Answer, canary: string) => Answer

const twisted = ({ status, headers, text }: Answer, change: (json: object) => object): Answer => {
  const json: unknown = JSON.parse(text)
  return typeof json === 'object' && json !== null
    ? { status, headers, text: JSON.stringify(change(json)) }
    : { status, headers, text }
}

const saying = (answer: Answer, words: string): Answer =>
  twisted(answer, (json) => {
    const [name] = Object.entries(json).find(([, value]) => typeof value === 'string') ?? ['title']
    return { ...json, [name]: words }
  })

export const wrongs = {
  'returns its own error': (answer) => ({ ...answer, status: 500, text: problemOf('internal_error', answer) }),
  'shows data of another tenant': (answer, canary) => saying(answer, canary),
  'reveals internals': (answer) => saying(answer, 'duplicate key value in pg_class, SQLSTATE 23505'),
  'names its server': (answer) => ({ ...answer, headers: { ...answer.headers, server: 'nginx' } }),
  'adds an undocumented member': (answer) => twisted(answer, (json) => ({ ...json, undocumented: 1 })),
  'omits a documented member': (answer) => twisted(answer, (json) => Object.fromEntries(Object.entries(json).slice(1))),
  'has no request id': ({ status, text, headers: { 'x-request-id': _id, ...headers } }) => ({ status, text, headers }),
  'rejects a request after executing it': (answer) => ({
    status: 403,
    headers: { 'content-type': 'application/problem+json', 'x-request-id': idOf(answer) },
    text: problemOf('insufficient_scope', answer),
  }),
} as const satisfies Record<string, Twist>

function idOf({ headers }: Answer): string {
  return headers['x-request-id'] ?? ''
}

function problemOf(code: 'internal_error' | 'insufficient_scope', answer: Answer): string {
  return JSON.stringify(problemDocument(code, idOf(answer)))
}

/** Changes every response of a correct gateway by `wrong`. */
export async function startStandIn(origin: string, canary: string, wrong: Wrong | undefined) {
  return await startProxy(origin, (answer) => (wrong === undefined ? answer : wrongs[wrong](answer, canary)))
}

/** Replaces every rejection with the last successful response. */
export async function startAcceptingProxy(origin: string) {
  let last: Answer | undefined
  return await startProxy(origin, (answer) => {
    if (answer.status < 300) last = answer
    return last !== undefined && answer.status >= 400 ? last : answer
  })
}

export async function startProxyWithoutPointers(origin: string) {
  return await startProxy(origin, (answer) =>
    answer.status < 400 ? answer : twisted(answer, ({ ...json }) => ({ ...json, errors: undefined })),
  )
}

async function startProxy(origin: string, change: (answer: Answer) => Answer) {
  return await startTestProxy(origin, async (_request, forward) => {
    const answer = await forward()
    const given = Object.entries(answer.headers ?? {}).map(([name, value]) => [name, String(value)])
    const headers = Object.fromEntries(given)
    const { text, ...changed } = change({ status: answer.status, headers, text: String(answer.body ?? '') })
    return { ...changed, body: Buffer.from(text) }
  })
}
