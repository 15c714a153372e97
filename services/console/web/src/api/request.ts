import type { ProblemDocument } from '@postern/contracts'
import { publicPath } from '../base-path.ts'

/** An error response of the API with its problem document (RFC 9457). */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem'
  readonly problem: ProblemDocument

  constructor(problem: ProblemDocument) {
    super(problem.detail ?? problem.title)
    this.problem = problem
  }
}

export function isForOtherRoles(error: unknown): boolean {
  return error instanceof ApiProblem && ['role_required', 'insufficient_scope'].includes(error.problem.code)
}

/** No valid response: no network, a proxy, or a starting server. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswer'
}

export interface Answer<T> {
  readonly body: T
  readonly headers: Headers
}

let csrfToken = ''
const onSignedOut = new Set<() => void>()
let readSessionAgain: () => Promise<boolean> = async () => await Promise.resolve(false)

/** Sent with every request; detects that somebody else has signed in. */
export function setCsrfToken(token: string): void {
  csrfToken = token
}

export function whenSignedOut(callback: () => void): () => void {
  onSignedOut.add(callback)
  return () => onSignedOut.delete(callback)
}

/** `read` resolves to whether the session is still the same person's. */
export function setReadSession(read: () => Promise<boolean>): void {
  readSessionAgain = read
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly body?: unknown
  /** Sent unchanged instead of a body. */
  readonly file?: File
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** A read without an action of the person does not extend the session. */
  readonly isByItself?: boolean
  readonly isWithoutToken?: boolean
}

const readWithinMs = 20_000
const answerWithinMs = 45_000
const sendWithinMs = 270_000

/** Throws `ApiProblem` or `NoAnswer`. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const response = await ask(path, options)
  const body = await parse<T>(response).catch((error: unknown) => {
    if (options.signal?.aborted) throw error
    throw new NoAnswerError('The response of the server was incomplete. Try again.', { cause: error })
  })
  return { body, headers: response.headers }
}

export async function download(path: string, options: RequestOptions): Promise<Blob> {
  return await (await ask(path, options)).blob()
}

export async function send(path: string, options: RequestOptions): Promise<void> {
  await ask(path, options)
}

async function ask(path: string, options: RequestOptions, isRepeated = false): Promise<Response> {
  const { method = 'GET', body, file, headers, signal, isByItself = false, isWithoutToken = false } = options
  const limitMs = method === 'GET' ? readWithinMs : file === undefined ? answerWithinMs : sendWithinMs
  const limit = AbortSignal.timeout(limitMs)
  const response = await fetch(publicPath(path), {
    method,
    headers: {
      accept: 'application/json',
      ...(isWithoutToken ? {} : { 'x-csrf-token': csrfToken }),
      ...(isByItself ? { 'x-by-itself': '1' } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(file === undefined ? {} : { 'content-type': 'application/octet-stream' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(file === undefined ? {} : { body: file }),
    cache: 'no-store',
    credentials: 'same-origin',
    redirect: 'error',
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new NoAnswerError(
      limit.aborted
        ? `The server did not answer within ${limitMs / 1000} seconds. Try again in a moment.`
        : 'The server cannot be reached. Check the connection and try again.',
      { cause: error },
    )
  })
  if (response.ok) return response
  if (response.status === 401) for (const callback of onSignedOut) callback()
  const problem = await problemOf(response)
  // Someone signed in again in another tab, so the request had no effect.
  const isOfBefore = problem instanceof ApiProblem && problem.problem.code === 'cross_site_request'
  if (!isOfBefore || isWithoutToken) throw problem
  if (!isRepeated && (await readSessionAgain())) return await ask(path, options, true)
  const detail = 'The session may have changed in another tab. Copy what you need and reload this page.'
  // Not a rejection of the request, so shown data stays.
  if (method === 'GET') throw new NoAnswerError(detail, { cause: problem })
  throw new ApiProblem({ ...problem.problem, detail })
}

async function parse<T>(response: Response): Promise<T> {
  return await response.json()
}

async function problemOf(response: Response): Promise<Error> {
  const type = response.headers.get('content-type') ?? ''
  if (!type.includes('json'))
    return new NoAnswerError(`The server returned ${response.status} without a reason. Try again in a moment.`)
  return new ApiProblem(await parse<ProblemDocument>(response))
}
