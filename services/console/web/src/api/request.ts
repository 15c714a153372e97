import type { ProblemDocument } from '@postern/contracts'
import { publicPath } from '../base-path.ts'

/** What the API refused, with the problem document that says why (RFC 9457). */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem'
  readonly problem: ProblemDocument

  constructor(problem: ProblemDocument) {
    super(problem.detail ?? problem.title)
    this.problem = problem
  }
}

/** Whether the person has not, or no longer, the role that is needed. There are other reasons to refuse somebody, such as that the tenant is suspended. */
export function isForOtherRoles(error: unknown): boolean {
  return error instanceof ApiProblem && ['role_required', 'insufficient_scope'].includes(error.problem.code)
}

/** Something that stands between the browser and an answer: no network, a proxy, a server that is starting. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

export interface Answer<T> {
  readonly body: T
  readonly headers: Headers
}

let csrfToken = ''
const onSignedOut = new Set<() => void>()
let readSessionAgain: () => Promise<boolean> = async () => await Promise.resolve(false)

/**
 * Sets the token that every request carries: so that no other site can make the browser send a change, and that nothing is read in the name of
 * somebody else who has signed in since.
 */
export function setCsrfToken(token: string): void {
  csrfToken = token
}

/** Calls back whenever the server says that nobody is signed in. Gives the function that ends it. */
export function whenSignedOut(callback: () => void): () => void {
  onSignedOut.add(callback)
  return () => onSignedOut.delete(callback)
}

/** Sets how the session is read again where the token is not that of it any more; it answers whether it is the same person's still. */
export function setReadSession(read: () => Promise<boolean>): void {
  readSessionAgain = read
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly body?: unknown
  /** Sent as it is, in place of a body. */
  readonly file?: File
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** What a page reads without anybody's doing: it keeps no session from ending unused. */
  readonly isByItself?: boolean
  /** For what tells the token itself, whoever is signed in. */
  readonly isWithoutToken?: boolean
}

/** What is read is there soon, or not at all. */
const readWithinMs = 20_000
/** A change may have to reach every gateway. */
const answerWithinMs = 45_000
/** For a file, which takes as long as the line is slow. */
const sendWithinMs = 270_000

/** Asks the console's own server, which knows who is signed in. Throws `ApiProblem` or `NoAnswer`. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const response = await ask(path, options)
  const body = await parse<T>(response).catch((error: unknown) => {
    if (options.signal?.aborted) throw error
    throw new NoAnswer('The answer of the server broke off. Try again.', { cause: error })
  })
  return { body, headers: response.headers }
}

/** Asks for something whose answer holds nothing. */
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
    throw new NoAnswer(
      limit.aborted
        ? `The server did not answer within ${limitMs / 1000} seconds. Try again in a moment.`
        : 'The server cannot be reached. Check the connection and try again.',
      { cause: error },
    )
  })
  if (response.ok) return response
  if (response.status === 401) for (const callback of onSignedOut) callback()
  const problem = await problemOf(response)
  // Somebody has signed in anew beside this page, whose token is of before. Nothing was done yet, or read.
  const isOfBefore = problem instanceof ApiProblem && problem.problem.code === 'cross_site_request'
  if (!isOfBefore || isWithoutToken) throw problem
  if (!isRepeated && (await readSessionAgain())) return await ask(path, options, true)
  // What the server says is for programs.
  const detail = 'Somebody may have signed in anew, in another tab. Copy what you need, and load this page again.'
  // No refusal of what was asked for: what this person may read, nobody has been asked, and what was read before stays.
  if (method === 'GET') throw new NoAnswer(detail, { cause: problem })
  throw new ApiProblem({ ...problem.problem, detail })
}

async function parse<T>(response: Response): Promise<T> {
  return await response.json()
}

async function problemOf(response: Response): Promise<Error> {
  const type = response.headers.get('content-type') ?? ''
  if (!type.includes('json')) return new NoAnswer(`The server answered ${response.status} and did not say why.`)
  return new ApiProblem(await parse<ProblemDocument>(response))
}
