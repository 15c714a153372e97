import { randomUUID } from 'node:crypto'
import * as http from 'node:http'
import * as https from 'node:https'
import {
  assertionHeader,
  contextHeader,
  problemMediaType,
  problemSchema,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { createSigner, mintAssertion, nilTenantId, serializeContext } from '@postern/signed-context'
import { describeConnectionFailure, isBeforeRequest } from './connection-failure.ts'
import { refusedBy, unavailable, unexpected } from './failure.ts'
import type { Settings } from './settings.ts'

export interface KeysRequest {
  readonly method: 'GET' | 'POST'
  /** Origin form. */
  readonly target: string
  /** The tenant that the request acts for; without it the request is one of the platform. */
  readonly tenantId?: string
  readonly body?: unknown
  /** What to tell when the answer does not come: whether repeating the command is safe. */
  readonly unanswered?: string
}

interface KeysAnswer {
  readonly body: unknown
  /** Target of the next page. */
  readonly next: string | undefined
}

/** The keys service, as the operator of the platform speaks to it. */
export interface KeysService {
  /** Gives the answer, or throws a Failure. Nothing is ever tried twice. */
  call(request: KeysRequest): Promise<KeysAnswer>
  close(): void
}

/** A revoke waits for every gateway, some seconds at most; this is far beyond it. */
const answerTimeoutMs = 30_000

/** Speaks to the keys service directly, every request signed (RFC 9421) as the operator. */
export function openKeysService({ keysUrl, signing, signer: name, assertions }: Settings): KeysService {
  const signer = createSigner(signing, name)
  const { Agent, request: send } = keysUrl.protocol === 'https:' ? https : http
  const agent = new Agent({ keepAlive: true })

  const headersOf = ({ method, target, tenantId = nilTenantId }: KeysRequest, content: Buffer | undefined) => {
    const now = Date.now()
    const signed = {
      context: serializeContext({
        tenantId,
        kind: 'operator',
        id: 'operator',
        // The service replaces it with the name in the credential.
        label: 'operator',
        scopes: [],
        roles: [],
      }),
      assertion: mintAssertion(assertions, tenantId, now),
      requestId: randomUUID(),
      ...(content && { contentType: 'application/json' }),
      // Also without a body: Node gives every POST a length, and what is sent must be signed.
      ...(method === 'POST' && { contentLength: String(content?.length ?? 0) }),
    }
    const { signatureInput, signature } = signer.sign({ method, target, ...signed }, now)
    return {
      accept: 'application/json',
      ...(signed.contentType && { 'content-type': signed.contentType }),
      ...(signed.contentLength && { 'content-length': signed.contentLength }),
      [contextHeader]: signed.context,
      [assertionHeader]: signed.assertion,
      [requestIdHeader]: signed.requestId,
      [signatureInputHeader]: signatureInput,
      [signatureHeader]: signature,
    }
  }

  const exchange = async (request: KeysRequest): Promise<{ head: http.IncomingMessage; text: string }> => {
    const { method, target, body } = request
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>()
    send(
      {
        protocol: keysUrl.protocol,
        hostname: keysUrl.hostname.replaceAll(/[[\]]/g, ''),
        port: keysUrl.port,
        method,
        path: target,
        headers: headersOf(request, content),
        agent,
        signal: AbortSignal.timeout(answerTimeoutMs),
      },
      resolve,
    )
      .on('error', reject)
      .end(content)
    const head = await promise
    const chunks: Buffer[] = []
    for await (const chunk of head) chunks.push(Buffer.from(chunk))
    return { head, text: Buffer.concat(chunks).toString('utf8') }
  }

  return {
    call: async (request) => {
      const { head, text } = await exchange(request).catch((error: unknown) => {
        throw unreachable(error, keysUrl, request.unanswered)
      })
      const status = head.statusCode ?? 0
      const body = parseJson(text)
      if (status >= 200 && status < 300) return { body, next: nextTarget(head.headers.link, request.target) }
      const problem = problemSchema.safeParse(body)
      if (problem.success && head.headers['content-type']?.startsWith(problemMediaType)) throw refusedBy(problem.data)
      throw unexpected(`${keysUrl.origin} answers ${status} and is not the keys service, or not in order`)
    },
    close: () => agent.destroy(),
  }
}

function unreachable(error: unknown, url: URL, unanswered: string | undefined): Error {
  if (isBeforeRequest(error)) return unavailable(describeConnectionFailure(error, url), error)
  const isTimeout = error instanceof DOMException && error.name === 'TimeoutError'
  const text =
    isTimeout || (error instanceof Error && error.name === 'AbortError')
      ? `the keys service at ${url.origin} has not answered within ${answerTimeoutMs / 1000} s`
      : describeConnectionFailure(error, url)
  return unavailable(unanswered === undefined ? text : `${text}. ${unanswered}`, error)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Target of `rel="next"` (RFC 8288), which must lie on the very path that was asked. */
function nextTarget(link: string | string[] | undefined, asked: string): string | undefined {
  const target = /<([^>]*)>; rel="next"/.exec(String(link ?? ''))?.[1]
  if (target === undefined) return undefined
  const [path] = asked.split('?', 1)
  if (!target.startsWith(`${path}?`)) throw unexpected('the next page lies elsewhere')
  return target
}
