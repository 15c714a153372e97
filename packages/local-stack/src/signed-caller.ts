import { randomUUID } from 'node:crypto'
import { requestIdHeader } from '@postern/contracts'
import { type ServiceAnswer, createServiceClient, signHeaders } from '@postern/service-client'
import {
  type Caller,
  createSigner,
  mintAssertion,
  nilTenantId,
  noAssertion,
  parseKeyRing,
} from '@postern/signed-context'
import type { Dispatcher } from 'undici'

export interface SignedCallerOptions {
  readonly baseUrl: string
  readonly keyName: string
  readonly ring: string
  readonly assertionKeys: string
}

/** Default: an API key without scopes. */
export type Principal = Pick<Caller, 'tenantId'> & Partial<Caller>

export interface CallOptions {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export type CallAnswer = ServiceAnswer

/** Signs like the gateway or the operator's command. */
export interface SignedCaller {
  call(principal: Principal, method: Dispatcher.HttpMethod, target: string, options?: CallOptions): Promise<CallAnswer>
}

export interface RequestSigner {
  /** Headers for a request without a body within 30 s. `assertedAt`: epoch ms. */
  sign(
    principal: Principal,
    method: Dispatcher.HttpMethod,
    target: string,
    assertedAt?: number,
  ): Readonly<Record<string, string>>
}

// Operators without a named credential are called `operator`.
export const operator: Principal = { tenantId: nilTenantId, kind: 'operator', id: 'operator', label: 'operator' }

const answerTimeoutMs = 60_000
/** Tests and the demo send many requests at once. */
const maxConnections = 512

export function createSignedCaller(options: SignedCallerOptions): SignedCaller & RequestSigner {
  const { baseUrl, keyName } = options
  const ring = parseKeyRing(options.ring)
  const assertionRing = parseKeyRing(options.assertionKeys)
  const signer = createSigner(ring, keyName)
  const { send } = createServiceClient({
    service: baseUrl,
    baseUrl,
    keyName,
    ring,
    timeoutMs: answerTimeoutMs,
    maxConnections,
  })
  const assertionOf = ({ kind, tenantId }: Caller, at: number): string =>
    kind === 'service' && tenantId === nilTenantId ? noAssertion : mintAssertion(assertionRing, tenantId, at)
  return {
    sign: (principal, method, target, assertedAt = Date.now()) => {
      const caller = callerOf(principal)
      const assertion = assertionOf(caller, assertedAt)
      return signHeaders(signer, { method, target, caller, assertion, requestId: randomUUID() }, Date.now())
    },
    call: async (principal, method, target, { body, headers = {} } = {}) => {
      const caller = callerOf(principal)
      const requestId = headers[requestIdHeader] ?? randomUUID()
      return await send({
        method,
        target,
        caller,
        assertion: assertionOf(caller, Date.now()),
        requestId,
        headers,
        body,
      })
    },
  }
}

function callerOf(principal: Principal): Caller {
  return {
    kind: 'api_key',
    id: '00000000-0000-4000-8000-000000000001',
    label: 'A test key',
    scopes: [],
    roles: [],
    ...principal,
  }
}
