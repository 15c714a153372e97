import { queryTextOf, rememberEtag, rememberQuery } from './etag.ts'
import { type AnswerOf, type BodyOf, type OperationName, type QueryOf, operations } from './operations.ts'
import { PosternProblem, readProblem } from './problem.ts'
import { type Repeatable, type RetryOptions, isPassing, wait, waitBefore } from './retry.ts'

/** Whose requests these are: a key, or the access token of a person, as a text or fetched anew for each request. */
export type Credentials =
  | { readonly key: string; readonly token?: never }
  | { readonly token: string | (() => string | Promise<string>); readonly key?: never }

export type ConnectionOptions = Credentials &
  RetryOptions & {
    /**
     * URL of the gateway: an origin such as `https://postern.example.com`, or an origin and the path below which a proxy
     * publishes it. The key is sent there and nowhere else.
     */
    readonly baseUrl: string
    /** How long one try may take, in milliseconds. Default 30,000; the upload of a file has no limit but its signal. */
    readonly timeoutMs?: number
  }

/** What every method takes beside what it is about. */
export interface CallOptions {
  /** Ends the request, the waits between its tries, and a loop over pages. */
  readonly signal?: AbortSignal | undefined
}

export type RequestBody = string | Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>

export interface Request {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'DELETE'
  /** Path and query below the base URL. */
  readonly target: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: RequestBody
  readonly signal?: AbortSignal | undefined
  /** The body may be large: no limit of time but the signal. */
  readonly isLong?: boolean
  /** Tried again until then (`performance.now()`), however often that is, in place of the retries of the connection. */
  readonly triedUntil?: number
}

export interface CallInput<N extends OperationName> extends CallOptions {
  /** Parameters of the path, by name. */
  readonly params?: Readonly<Record<string, string>>
  readonly query?: QueryOf<N>
  /** In place of a query: what was read before, to be asked for with the query of then. */
  readonly like?: object
  readonly body?: BodyOf<N>
  readonly headers?: Readonly<Record<string, string>>
}

/** An answer that has arrived whole. */
export interface Received {
  readonly headers: Headers
  readonly text: string
}

export interface Connection {
  /**
   * Sends a request, and again where that does no harm and may help. Throws PosternProblem when the API refuses, a
   * TypeError of fetch when it cannot be reached, a DOMException when the time is up, the reason of a signal that aborts.
   */
  send(request: Request): Promise<Response>
  /** As `send`, with the answer read to its end: one that breaks off in the middle is asked for again like one that never came. */
  receive(request: Request): Promise<Received>
  /** Carries out an operation with JSON. Gives undefined for an answer without a body. */
  call<N extends OperationName>(name: N, input: CallInput<N>): Promise<AnswerOf<N>>
  /** The target of a URL of the same origin, below the base URL; throws when it lies elsewhere, where the key must not go. */
  targetOf(url: string): string
}

const keyPattern = /^postern_[0-9A-Za-z]{49}$/
const tokenPattern = /^[A-Za-z0-9._~+/-]+=*$/
const defaultTimeoutMs = 30_000
const defaultRetries = 3
const defaultMaxWaitMs = 60_000

/** Checks the options and gives what sends requests with the credentials. */
export function connect(options: ConnectionOptions): Connection {
  const { baseUrl, timeoutMs = defaultTimeoutMs, retries = defaultRetries, maxWaitMs = defaultMaxWaitMs } = options
  const base = URL.parse(baseUrl)
  if (base === null || !/^https?:$/.test(base.protocol) || !isBaseUrl(base)) {
    throw new TypeError(
      'baseUrl must be an origin, or an origin and a path without /api/v1, such as https://postern.example.com',
    )
  }
  const authorize = authorizer(options)
  const { origin } = base
  const basePath = base.pathname.replace(/\/$/, '')

  async function attempt(
    { method, target, headers = {}, body, signal, isLong }: Request,
    authorization: string,
  ): Promise<Response> {
    const limits = [
      ...(signal === undefined ? [] : [signal]),
      ...(isLong === true ? [] : [AbortSignal.timeout(timeoutMs)]),
    ]
    return await fetch(`${origin}${basePath}${target}`, {
      method,
      headers: { accept: 'application/json', ...headers, authorization },
      // An answer never redirects; whoever does is not Postern, and does not get the key.
      redirect: 'error',
      ...(limits.length === 0 ? {} : { signal: AbortSignal.any(limits) }),
      ...(body === undefined ? {} : { body }),
      // Streams are sent before the answer is read (Fetch standard, RequestInit).
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    })
  }

  async function tried<T>(request: Request, take: (answer: Response) => T | Promise<T>): Promise<T> {
    const repeatable = repeatableOf(request)
    for (let retry = 1; ; retry += 1) {
      let failure: unknown
      let waitMs: number | undefined
      // What fails here has sent nothing, and is not the API's: it is not for this to try again.
      const authorization = await authorize()
      try {
        const answer = await attempt(request, authorization)
        if (answer.ok || answer.status === 304) return await take(answer)
        const problem = await readProblem(answer)
        failure = problem
        if (isPassing(problem.status, problem.code, repeatable)) {
          waitMs = waitBefore(retry, problem.retryAfterSeconds, maxWaitMs)
        }
      } catch (error) {
        request.signal?.throwIfAborted()
        failure = error
        // Nobody knows whether the request has arrived: it is sent again only where that makes no difference.
        if (repeatable === 'anything' && isConnectionError(error)) waitMs = waitBefore(retry, undefined, maxWaitMs)
      }
      const { triedUntil } = request
      const isOver = triedUntil === undefined ? retry > retries : performance.now() >= triedUntil
      if (waitMs === undefined || isOver) throw failure
      await wait(waitMs, request.signal)
    }
  }

  const receive = async (request: Request): Promise<Received> =>
    await tried(request, async (answer) => ({ headers: answer.headers, text: await answer.text() }))

  return {
    send: async (request) => await tried(request, (answer) => answer),
    receive,
    call: async <N extends OperationName>(
      name: N,
      { params = {}, query, like, body, headers = {}, signal }: CallInput<N>,
    ) => {
      const [method, path] = operations[name]
      const asked = like === undefined ? queryOf(query ?? {}) : queryTextOf(like)
      const answer = await receive({
        method,
        target: `${fillPath(path, params)}${asked}`,
        headers: {
          ...(body === undefined ? {} : { 'content-type': contentTypeOf(method) }),
          ...once(method),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal,
      })
      const value = readJson<AnswerOf<N>>(answer)
      rememberQuery(value, asked)
      return value
    },
    targetOf: (url) => {
      const parsed = new URL(url, origin)
      if (parsed.origin !== origin) throw new TypeError('the next page lies on another origin: it is not asked for')
      // Whatever path the gateway believes that it is published below, the client goes on below its own.
      const path = parsed.pathname.slice(Math.max(0, parsed.pathname.lastIndexOf('/api/v1/')))
      return `${path}${parsed.search}`
    },
  }
}

/** An origin, or an origin and the path below which a proxy publishes the gateway. */
function isBaseUrl({ href, origin, pathname }: URL): boolean {
  return href === `${origin}${pathname}` && !`${pathname}/`.includes('/api/v1/')
}

/** Gives the value of Authorization. What was given is never shown: it may be a part of a key. */
function authorizer({ key, token }: Credentials): () => Promise<string> {
  if (key !== undefined) {
    if (!keyPattern.test(key)) throw new TypeError('key must be a whole Postern API key: postern_ and 49 characters')
    return async () => `ApiKey ${key}`
  }
  return async () => {
    const value = typeof token === 'function' ? await token() : token
    if (!tokenPattern.test(value ?? '')) throw new TypeError('token must be an access token')
    return `Bearer ${value}`
  }
}

/** A stream cannot be sent twice. A POST can, with its Idempotency-Key; a PATCH only when it was not looked at. */
function repeatableOf({ method, headers = {}, body }: Request): Repeatable {
  if (body instanceof ReadableStream) return 'nothing'
  if (method === 'GET' || method === 'HEAD') return 'anything'
  if (method === 'POST' && headers['idempotency-key'] !== undefined) return 'anything'
  return 'nothing-done'
}

/** Of fetch: a TypeError when there is no connection, a DOMException when the time is up. */
function isConnectionError(error: unknown): boolean {
  return !(error instanceof PosternProblem) && error instanceof Error
}

/** Every POST gets a key of its own, which is the same in all its tries: it is carried out once. */
export function once(method: Request['method']): { 'idempotency-key'?: string } {
  return method === 'POST' ? { 'idempotency-key': crypto.randomUUID() } : {}
}

function contentTypeOf(method: Request['method']): string {
  return method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
}

/**
 * Reads the body of an answer as the type that its contract gives it. It is not checked: the service has done so, and a
 * client that refuses a field which it does not know would break with the next version of the API.
 */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the type of the contract, which the caller names
export function readJson<T>({ headers, text }: Received): T {
  const value: unknown = text === '' ? undefined : JSON.parse(text)
  rememberEtag(value, headers.get('etag'))
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract's word is taken, as said above
  return value as T
}

/** The path of an operation with its parameters. The colon of `ref:` needs no escape, and the gateway refuses needless ones. */
export function fillPath(path: string, params: Readonly<Record<string, string>>): string {
  return path.replaceAll(/:([a-z_]+)/g, (_match, name: string) =>
    encodeURIComponent(carriable(params[name] ?? '')).replaceAll('%3A', ':'),
  )
}

/** An external id that a path cannot carry, as one with a slash, goes in base64url. */
function carriable(address: string): string {
  if (!address.startsWith('ext:') || !/[/\\%;]/.test(address)) return address
  const bytes = new TextEncoder().encode(address.slice('ext:'.length))
  const base64 = btoa(String.fromCharCode(...bytes))
  return `ext64:${base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')}`
}

/** A query; several values of a parameter are repeated. Throws a TypeError for a list of none: without the parameter the answer would hold all. */
export function queryOf(parameters: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value) && value.length === 0) {
      throw new TypeError(`${name} is an empty list, of which nothing is one: leave it out, or do not ask`)
    }
    const values: readonly unknown[] = Array.isArray(value) ? value : value === undefined ? [] : [value]
    for (const each of values) query.append(name, String(each))
  }
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}
