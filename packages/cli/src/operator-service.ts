import { problemMediaType, problemSchema } from '@postern/contracts'
import { NoAnswerError, createServiceClient } from '@postern/service-client'
import { mintAssertion, nilTenantId } from '@postern/signed-context'
import { describeConnectionFailure, isBeforeRequest } from './connection-failure.ts'
import { rejectedByServerError, unavailableError, unexpectedError } from './cli-error.ts'
import type { Settings } from './settings.ts'

export interface KeysRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly target: string
  /** Absent for requests of the platform. */
  readonly tenantId?: string
  readonly body?: unknown
  readonly ifMatch?: string
  /** Whether repeating the command is safe. */
  readonly noResponseAdvice?: string
}

interface KeysAnswer {
  readonly body: unknown
  readonly next: string | undefined
  readonly etag?: string | undefined
}

export interface KeysService {
  /** Throws a Failure. Never retries. */
  call(request: KeysRequest): Promise<KeysAnswer>
  close(): void
}

/** A revoke waits a few seconds for every gateway. */
const answerTimeoutMs = 30_000

/** Signs every request (RFC 9421) as the operator. */
export function openKeysService({ keysUrl, signing, signer, assertions }: Settings): KeysService {
  const { send, close } = createServiceClient({
    service: 'The keys service',
    baseUrl: keysUrl.href,
    keyName: signer,
    ring: signing,
    timeoutMs: answerTimeoutMs,
  })
  return {
    call: async ({ method, target, tenantId = nilTenantId, body: content, ifMatch, noResponseAdvice }) => {
      // The service replaces the label with the name in the credential.
      const caller = { tenantId, kind: 'operator', id: 'operator', label: 'operator', scopes: [], roles: [] } as const
      const assertion = mintAssertion(assertions, tenantId, Date.now())
      const headers = { accept: 'application/json', ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) }
      const answer = await send({ method, target, caller, assertion, headers, body: content }).catch(
        (error: unknown) => {
          throw unreachableError(error, keysUrl, noResponseAdvice)
        },
      )
      const { status, json: body } = answer
      if (status >= 200 && status < 300)
        return { body, next: nextTarget(answer.headers['link'], target), etag: answer.headers['etag'] }
      const problem = problemSchema.safeParse(body)
      if (problem.success && answer.headers['content-type']?.startsWith(problemMediaType))
        throw rejectedByServerError(problem.data)
      throw unexpectedError(
        `${keysUrl.origin} returned ${status} without a problem document. Check that it is the keys service`,
      )
    },
    close: () => void close(),
  }
}

function unreachableError(error: unknown, url: URL, noResponseAdvice: string | undefined): Error {
  if (isBeforeRequest(error)) return unavailableError(describeConnectionFailure(error, url), error)
  const text =
    error instanceof NoAnswerError && error.isTimeout
      ? `the keys service at ${url.origin} did not respond within ${answerTimeoutMs / 1000} s`
      : describeConnectionFailure(error, url)
  return unavailableError(noResponseAdvice === undefined ? text : `${text}. ${noResponseAdvice}`, error)
}

/** `rel="next"` (RFC 8288) must have the requested path. */
function nextTarget(link: string | undefined, asked: string): string | undefined {
  const target = /<([^>]*)>; rel="next"/.exec(link ?? '')?.[1]
  if (target === undefined) return undefined
  const [path] = asked.split('?', 1)
  if (!target.startsWith(`${path}?`)) throw unexpectedError('the link to the next page has a different path')
  return target
}
