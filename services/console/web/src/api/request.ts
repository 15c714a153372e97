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

export function isAccessDenied(error: unknown): boolean {
  return error instanceof ApiProblem && ['role_required', 'insufficient_scope'].includes(error.problem.code)
}

/** There was no valid response: the network is down, a proxy answered, or the server is starting. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
}

export interface Answer<T> {
  readonly body: T
  readonly headers: Headers
}

let csrfToken = ''
const onSignedOut = new Set<() => void>()
let readSessionAgain: () => Promise<boolean> = async () => await Promise.resolve(false)

/** Every request sends the token, so that the console notices if somebody else has signed in. */
export function setCsrfToken(token: string): void {
  csrfToken = token
}

export function whenSignedOut(callback: () => void): () => void {
  onSignedOut.add(callback)
  return () => onSignedOut.delete(callback)
}

/** `read` reads the session and returns whether it is still the same person's. */
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
  /** Whether the page sends the read without an action of the person. Such a read does not extend the session. */
  readonly isAutomatic?: boolean
  readonly isWithoutToken?: boolean
}

const readWithinMs = 20_000
const answerWithinMs = 45_000
/** For files, in both directions. */
const transferWithinMs = 270_000

/** Throws `ApiProblem` or `NoAnswerError`. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const response = await fetchResponse(path, options)
  return { body: await readBody(parse<T>(response), options.signal), headers: response.headers }
}

/** Reads a file. Throws `ApiProblem` or `NoAnswerError`. */
export async function download(path: string, options: RequestOptions): Promise<Blob> {
  const response = await fetchResponse(path, options, transferWithinMs)
  return await readBody(response.blob(), options.signal)
}

export async function send(path: string, options: RequestOptions): Promise<void> {
  await fetchResponse(path, options)
}

async function readBody<T>(reading: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return await reading.catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new NoAnswerError('The response of the server was incomplete. Try again.', { cause: error })
  })
}

function limitOf({ method = 'GET', file }: RequestOptions): number {
  if (method === 'GET') return readWithinMs
  return file === undefined ? answerWithinMs : transferWithinMs
}

async function fetchResponse(
  path: string,
  options: RequestOptions,
  limitMs = limitOf(options),
  isRepeated = false,
): Promise<Response> {
  const { method = 'GET', body, file, headers, signal, isAutomatic = false, isWithoutToken = false } = options
  const limit = AbortSignal.timeout(limitMs)
  const response = await fetch(publicPath(path), {
    method,
    headers: {
      accept: 'application/json',
      ...(isWithoutToken ? {} : { 'x-csrf-token': csrfToken }),
      ...(isAutomatic ? { 'x-by-itself': '1' } : {}),
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
  const problem = await readBody(problemOf(response), signal)
  // The token is of an earlier session: somebody signed in again in another tab. The request had no effect.
  const isStaleToken = problem instanceof ApiProblem && problem.problem.code === 'cross_site_request'
  if (!isStaleToken || isWithoutToken) throw problem
  if (!isRepeated && (await readSessionAgain())) return await fetchResponse(path, options, limitMs, true)
  const detail = 'The session may have changed in another tab. Copy what you need and reload this page.'
  // Not an `ApiProblem`, so that the page keeps what it shows.
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
