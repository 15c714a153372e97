import { problemMediaType, problemSchema } from '@postern/contracts'
import { NoAnswerError, createServiceClient } from '@postern/service-client'
import { mintAssertion, nilTenantId } from '@postern/signed-context'
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

/** Opens a client of the keys service. Every request is signed (RFC 9421) as the operator. */
export function openKeysService({ keysUrl, signing, signer, assertions }: Settings): KeysService {
  const { send, close } = createServiceClient({
    service: 'The keys service',
    baseUrl: keysUrl.href,
    keyName: signer,
    ring: signing,
    timeoutMs: answerTimeoutMs,
  })
  return {
    call: async ({ method, target, tenantId = nilTenantId, body: content, unanswered }) => {
      // The service replaces the label with the name in the credential.
      const caller = { tenantId, kind: 'operator', id: 'operator', label: 'operator', scopes: [], roles: [] } as const
      const assertion = mintAssertion(assertions, tenantId, Date.now())
      const headers = { accept: 'application/json' }
      const answer = await send({ method, target, caller, assertion, headers, body: content }).catch(
        (error: unknown) => {
          throw unreachable(error, keysUrl, unanswered)
        },
      )
      const { status, json: body } = answer
      if (status >= 200 && status < 300) return { body, next: nextTarget(answer.headers['link'], target) }
      const problem = problemSchema.safeParse(body)
      if (problem.success && answer.headers['content-type']?.startsWith(problemMediaType)) throw refusedBy(problem.data)
      throw unexpected(`${keysUrl.origin} answers ${status} and is not the keys service, or not in order`)
    },
    close: () => void close(),
  }
}

function unreachable(error: unknown, url: URL, unanswered: string | undefined): Error {
  if (isBeforeRequest(error)) return unavailable(describeConnectionFailure(error, url), error)
  const text =
    error instanceof NoAnswerError && error.isTimeout
      ? `the keys service at ${url.origin} has not answered within ${answerTimeoutMs / 1000} s`
      : describeConnectionFailure(error, url)
  return unavailable(unanswered === undefined ? text : `${text}. ${unanswered}`, error)
}

/** Target of `rel="next"` (RFC 8288), which must lie on the very path that was asked. */
function nextTarget(link: string | undefined, asked: string): string | undefined {
  const target = /<([^>]*)>; rel="next"/.exec(link ?? '')?.[1]
  if (target === undefined) return undefined
  const [path] = asked.split('?', 1)
  if (!target.startsWith(`${path}?`)) throw unexpected('the next page lies elsewhere')
  return target
}
