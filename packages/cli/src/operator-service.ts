import { problemMediaType, problemSchema } from '@postern/contracts'
import { NoAnswerError, createServiceClient } from '@postern/service-client'
import { mintAssertion, nilTenantId } from '@postern/signed-context'
import { describeConnectionFailure, isBeforeRequest } from './connection-failure.ts'
import { rejectedByServerError, unavailableError, unexpectedError } from './cli-error.ts'
import type { Settings } from './settings.ts'

export interface OperatorRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly target: string
  /** Absent for requests of the platform. */
  readonly tenantId?: string
  readonly body?: unknown
  readonly ifMatch?: string
  /** What to do if no response arrives, such as to repeat the command. */
  readonly noResponseAdvice?: string
}

interface OperatorAnswer {
  readonly body: unknown
  readonly next: string | undefined
  readonly etag?: string | undefined
}

export interface OperatorService {
  /** Throws a CliError. Never retries. */
  call(request: OperatorRequest): Promise<OperatorAnswer>
  close(): void
}

/** A revocation waits a few seconds for every gateway. */
const answerTimeoutMs = 30_000

/** Sends requests to the keys or the sync service, each signed (RFC 9421) as the operator. */
export function openOperatorService(
  { signing, signer, assertions }: Pick<Settings, 'signing' | 'signer' | 'assertions'>,
  { name, url }: { readonly name: 'keys' | 'sync'; readonly url: URL },
): OperatorService {
  const service = `the ${name} service`
  const { send, close } = createServiceClient({
    service,
    baseUrl: url.href,
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
          throw unreachableError(error, { service, url, noResponseAdvice })
        },
      )
      const { status, json: body } = answer
      if (status >= 200 && status < 300)
        return { body, next: nextTarget(answer.headers['link'], target), etag: answer.headers['etag'] }
      const problem = problemSchema.safeParse(body)
      if (problem.success && answer.headers['content-type']?.startsWith(problemMediaType))
        throw rejectedByServerError(problem.data)
      throw unexpectedError(`${url.origin} returned ${status} without a problem document. Check that it is ${service}`)
    },
    close: () => void close(),
  }
}

function unreachableError(
  error: unknown,
  {
    service,
    url,
    noResponseAdvice,
  }: { readonly service: string; readonly url: URL; readonly noResponseAdvice: string | undefined },
): Error {
  if (isBeforeRequest(error)) return unavailableError(describeConnectionFailure(error, url), error)
  const text =
    error instanceof NoAnswerError && error.isTimeout
      ? `${service} at ${url.origin} did not respond within ${answerTimeoutMs / 1000} s`
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
