import { readProblem } from './problem.ts'

export interface ConnectionOptions {
  /** Origin of the gateway, as `https://postern.example.com`. The key is sent there and nowhere else. */
  readonly baseUrl: string
  /** The API key. Kept out of everything but the Authorization header. */
  readonly key: string
  /** How long an answer may take, in milliseconds. Default 30,000; an upload has no limit but its own signal. */
  readonly timeoutMs?: number
}

interface Request {
  readonly method: 'GET' | 'POST'
  /** Path and query from the origin. */
  readonly target: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>
  readonly signal?: AbortSignal | undefined
}

export interface Connection {
  /**
   * Sends one request, once. Throws PosternProblem when the API refuses, a TypeError of fetch when it cannot be reached,
   * a DOMException when the time is up or `signal` aborts.
   */
  send(request: Request): Promise<Response>
  /** The target of a URL of the same origin; throws when it lies elsewhere, where the key must not go. */
  targetOf(url: string): string
}

const keyPattern = /^postern_[0-9A-Za-z]{49}$/
const defaultTimeoutMs = 30_000

/** Checks the options and gives what sends requests with the key. */
export function connect({ baseUrl, key, timeoutMs = defaultTimeoutMs }: ConnectionOptions): Connection {
  const base = URL.parse(baseUrl)
  if (base === null || !/^https?:$/.test(base.protocol) || base.href !== `${base.origin}/`) {
    throw new TypeError('baseUrl must be an origin, as https://postern.example.com')
  }
  // Not shown: what was given may be a part of a key.
  if (!keyPattern.test(key)) throw new TypeError('key must be a whole Postern API key: postern_ and 49 characters')
  const { origin } = base
  return {
    send: async ({ method, target, headers = {}, body, signal }) => {
      const answer = await fetch(`${origin}${target}`, {
        method,
        headers: { accept: 'application/json', ...headers, authorization: `ApiKey ${key}` },
        // An answer never redirects; whoever does is not Postern, and does not get the key.
        redirect: 'error',
        signal: signal ?? AbortSignal.timeout(timeoutMs),
        ...(body === undefined ? {} : { body }),
        // Streams are sent before the answer is read (Fetch standard, RequestInit).
        ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
      })
      if (!answer.ok) throw await readProblem(answer)
      return answer
    },
    targetOf: (url) => {
      const parsed = new URL(url, origin)
      if (parsed.origin !== origin) throw new TypeError('the next page lies on another origin: it is not asked for')
      return `${parsed.pathname}${parsed.search}`
    },
  }
}

/**
 * Reads the body of an answer as the type that its contract gives it. It is not checked: the service has done so, and a
 * client that refuses a field which it does not know would break with the next version of the API.
 */
export async function readJson<T>(answer: Response): Promise<T> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract's word is taken, as said above
  return (await answer.json()) as T
}
