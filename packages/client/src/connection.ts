import { queryTextOf, rememberEtag, rememberQuery } from './etag.ts'
import { type AnswerOf, type BodyOf, type OperationName, type QueryOf, operations } from './operations.ts'
import { PosternProblem, readProblem } from './problem.ts'
import { type Repeatable, type RetryOptions, isRetryable, wait, retryDelayMs } from './retry.ts'

/** An API key, or a person's access token as text or a function that is called before each attempt. */
export type Credentials =
  | { readonly key: string; readonly token?: never }
  | { readonly token: string | (() => string | Promise<string>); readonly key?: never }

export type ConnectionOptions = Credentials &
  RetryOptions & {
    /**
     * An origin such as `https://postern.example.com`, or an origin and the path that a proxy adds. The key is sent
     * only there.
     */
    readonly baseUrl: string
    /** Milliseconds per attempt, default 30,000. Uploads have no limit. */
    readonly timeoutMs?: number
  }

/** Sends no credentials, for public operations. */
export type AnonymousOptions = Omit<ConnectionOptions, 'key' | 'token'> & { readonly isAnonymous: true }

export interface CallOptions {
  /** Aborts the request, the waits between attempts, and a loop over pages. */
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
  /** No time limit, because the body may be large. */
  readonly isLong?: boolean
  /** Replaces the number of retries with a time (`performance.now()`). */
  readonly retryUntilMs?: number
}

export interface CallInput<N extends OperationName> extends CallOptions {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: QueryOf<N>
  /** Sends the query with which this value was read. */
  readonly like?: object
  readonly body?: BodyOf<N>
  readonly headers?: Readonly<Record<string, string>>
}

export interface ReceivedAnswer {
  readonly headers: Headers
  readonly text: string
}

export interface Connection {
  /**
   * Retries if that is safe. Throws PosternProblem, a TypeError if the API is unreachable, a DOMException after a
   * timeout, or the reason of an aborted signal.
   */
  send(request: Request): Promise<Response>
  /** Retries if the response breaks off. */
  receive(request: Request): Promise<ReceivedAnswer>
  /** Undefined without a response body. */
  call<N extends OperationName>(name: N, input: CallInput<N>): Promise<AnswerOf<N>>
  /** Throws if the URL has another origin, which must not get the key. */
  targetOf(url: string): string
}

const keyPattern = /^postern_[0-9A-Za-z]{49}$/
const tokenPattern = /^[A-Za-z0-9._~+/-]+=*$/
const defaultTimeoutMs = 30_000
const defaultRetries = 3
const defaultMaxWaitMs = 60_000

/** Opens a connection, for requests that the client has no method for. Throws a TypeError if the URL or key is invalid. */
export function connect(options: ConnectionOptions | AnonymousOptions): Connection {
  const { baseUrl, timeoutMs = defaultTimeoutMs, retries = defaultRetries, maxWaitMs = defaultMaxWaitMs } = options
  const base = URL.parse(baseUrl)
  if (base === null || !/^https?:$/.test(base.protocol) || !isBaseUrl(base)) {
    throw new TypeError(
      'baseUrl must be an origin, or an origin and a path without /api/v1, such as https://postern.example.com',
    )
  }
  const authorize = 'isAnonymous' in options ? async () => undefined : authorizer(options)
  const { origin } = base
  const basePath = base.pathname.replace(/\/$/, '')

  async function attempt(
    { method, target, headers = {}, body, signal, isLong }: Request,
    authorization: string | undefined,
  ): Promise<Response> {
    const limits = [
      ...(signal === undefined ? [] : [signal]),
      ...(isLong === true ? [] : [AbortSignal.timeout(timeoutMs)]),
    ]
    assertWholePath(target)
    return await fetch(`${origin}${basePath}${target}`, {
      method,
      headers: {
        accept: 'application/json',
        ...headers,
        ...(authorization === undefined ? {} : { authorization }),
      },
      // The API never redirects, and another server must not get the key.
      redirect: 'manual',
      ...(limits.length === 0 ? {} : { signal: AbortSignal.any(limits) }),
      ...(body === undefined ? {} : { body }),
      // The Fetch standard requires this for streams.
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    })
  }

  async function sendWithRetries<T>(request: Request, read: (answer: Response) => T | Promise<T>): Promise<T> {
    const repeatable = repeatabilityOf(request)
    for (let retry = 1; ; retry += 1) {
      let failure: unknown
      let waitMs: number | undefined
      // Errors of the token function are thrown without a retry.
      const authorization = await authorize()
      try {
        const answer = await attempt(request, authorization)
        if (answer.ok || answer.status === 304) return await read(answer)
        const problem = await readProblem(answer)
        failure = problem
        if (isRetryable(problem.status, problem.code, repeatable)) {
          waitMs = retryDelayMs(retry, problem.retryAfterSeconds, maxWaitMs)
        }
      } catch (error) {
        request.signal?.throwIfAborted()
        failure = error
        // The request may have arrived, so retry only what is harmless.
        if (repeatable === 'anything' && isConnectionError(error)) waitMs = retryDelayMs(retry, undefined, maxWaitMs)
      }
      const { retryUntilMs } = request
      const isOver = retryUntilMs === undefined ? retry > retries : performance.now() >= retryUntilMs
      if (waitMs === undefined || isOver) throw failure
      await wait(waitMs, request.signal)
    }
  }

  const receive = async (request: Request): Promise<ReceivedAnswer> =>
    await sendWithRetries(request, async (answer) => ({ headers: answer.headers, text: await answer.text() }))

  return {
    send: async (request) => await sendWithRetries(request, (answer) => answer),
    receive,
    call: async <N extends OperationName>(
      name: N,
      { params = {}, query, like, body, headers = {}, signal }: CallInput<N>,
    ) => {
      const [method, path] = operations[name]
      const queryText = like === undefined ? queryOf(query ?? {}) : queryTextOf(like)
      const answer = await receive({
        method,
        target: `${fillPath(path, params)}${queryText}`,
        headers: {
          ...(body === undefined ? {} : { 'content-type': contentTypeOf(method) }),
          ...idempotencyHeader(method),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal,
      })
      const value = readJson<AnswerOf<N>>(answer)
      rememberQuery(value, queryText)
      return value
    },
    targetOf: (url) => {
      const parsed = new URL(url, origin)
      if (parsed.origin !== origin)
        throw new TypeError('the next page is on another origin, which must not get the key')
      // Behind a proxy, the gateway may not know the path that the proxy adds.
      const path = parsed.pathname.slice(Math.max(0, parsed.pathname.lastIndexOf('/api/v1/')))
      return `${path}${parsed.search}`
    },
  }
}

function isBaseUrl({ href, origin, pathname }: URL): boolean {
  return href === `${origin}${pathname}` && !`${pathname}/`.includes('/api/v1/')
}

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

/** A stream cannot be sent twice. A POST with an Idempotency-Key can, and a PATCH only if it was not processed. */
function repeatabilityOf({ method, headers = {}, body }: Request): Repeatable {
  if (body instanceof ReadableStream) return 'nothing'
  if (method === 'GET' || method === 'HEAD') return 'anything'
  if (method === 'POST' && headers['idempotency-key'] !== undefined) return 'anything'
  return 'not-processed'
}

/** A TypeError without a connection, a DOMException after a timeout. */
function isConnectionError(error: unknown): boolean {
  return !(error instanceof PosternProblem) && error instanceof Error
}

export function idempotencyHeader(method: Request['method']): { 'idempotency-key'?: string } {
  return method === 'POST' ? { 'idempotency-key': crypto.randomUUID() } : {}
}

function contentTypeOf(method: Request['method']): string {
  return method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
}

/** Without validation, so that new members do not break the client. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the type of the contract
export function readJson<T>({ headers, text }: ReceivedAnswer): T {
  const value: unknown = text === '' ? undefined : JSON.parse(text)
  rememberEtag(value, headers.get('etag'))
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- not validated, see above
  return value as T
}

/** A URL parser removes these segments, and the request would reach another resource. */
function assertWholePath(target: string): void {
  if (/^[^?]*\/\.{0,2}(?:[/?]|$)/.test(target)) {
    throw new TypeError('the address of a resource must be an id, `ref:…` or `ext:…`')
  }
}

/** The gateway rejects unnecessary escapes, such as that of the colon of `ref:`. */
export function fillPath(path: string, params: Readonly<Record<string, string>>): string {
  return path.replaceAll(/:([a-z_]+)/g, (_match, name: string) =>
    encodeURIComponent(encodeExternalId(params[name] ?? '')).replaceAll('%3A', ':'),
  )
}

function encodeExternalId(address: string): string {
  if (!address.startsWith('ext:') || !/[/\\%;]/.test(address)) return address
  const bytes = new TextEncoder().encode(address.slice('ext:'.length))
  const base64 = btoa(String.fromCharCode(...bytes))
  return `ext64:${base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')}`
}

/**
 * Repeats a parameter with several values. Throws a TypeError for an empty list, without which the API would return
 * everything.
 */
export function queryOf(parameters: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value) && value.length === 0) {
      throw new TypeError(`${name} is an empty list, which matches nothing: leave it out to get everything`)
    }
    const values: readonly unknown[] = Array.isArray(value) ? value : value === undefined ? [] : [value]
    for (const each of values) query.append(name, String(each))
  }
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}
