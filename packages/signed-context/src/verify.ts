import { timingSafeEqual } from 'node:crypto'
import { assertionHeader, contextHeader, signatureHeader, signatureInputHeader } from '@postern/contracts'
import { parseAssertion } from './assertion.ts'
import { type TenantContext, noAssertion, parseContext } from './context.ts'
import { coveredWhenPresent, mandatoryHeaders } from './covered-headers.ts'
import { type Mac, createMac } from './hmac.ts'
import { type KeyRing, assertKeyName, findKey } from './key-ring.ts'
import { deriveOperatorSecret, isOperatorName, operatorKeyName } from './operator-credential.ts'
import { type ReplayCache, createReplayCache } from './replay-cache.ts'
import { signatureBase } from './signature-base.ts'
import { nilTenantId } from './tenant-id.ts'

export interface ReceivedRequest {
  readonly method: string
  /** `request.url` of node:http, unchanged. */
  readonly target: string
  /** `request.rawHeaders` of node:http, because other members hide duplicates. */
  readonly headers: readonly string[]
}

/** Only the service's log shows it. */
export type SignatureRefusal =
  | 'malformed_headers'
  | 'missing_header'
  | 'duplicate_header'
  | 'ambiguous_header'
  | 'unsigned_platform_header'
  | 'malformed_signature_input'
  | 'malformed_signature'
  | 'uncovered_header'
  | 'too_old'
  | 'from_the_future'
  | 'unknown_key'
  | 'wrong_signature'
  | 'replayed'
  | 'replay_cache_full'
  | 'malformed_context'
  | 'assertion_of_another_tenant'
  | 'not_an_operator'

export type Verification =
  | { readonly ok: true; readonly context: TenantContext }
  | { readonly ok: false; readonly reason: SignatureRefusal }

export interface Verifier {
  /** Verifies one request and never throws. `nowMs` is the wall clock. */
  verify(request: ReceivedRequest, nowMs: number): Verification
}

export interface VerifierOptions {
  /** Default 30,000 ms. Stops requests of a gateway that paused between its decision and sending. */
  readonly maxAgeMs?: number
  readonly maxAheadMs?: number
  /** Further signatures are rejected. The default of 1,000,000 is enough for 15,000 requests a second. */
  readonly maxNonces?: number
  /** Only the verifier of `operator` uses it. */
  readonly revokedOperators?: ReadonlySet<string>
}

const watchedHeaders: ReadonlySet<string> = new Set([
  ...mandatoryHeaders,
  ...coveredWhenPresent,
  signatureInputHeader,
  signatureHeader,
])

/** An unsigned platform header is a forgery. */
const platformPrefix = /^(?:x-)?(?:postern-|tenant)/

// As the signer writes it. The order of optional parts is fixed, so matching is linear.
const signatureInputPattern = new RegExp(
  '^postern=(\\("@method" "@request-target" ' +
    mandatoryHeaders.map((name) => `"${name}"`).join(' ') +
    `((?:${coveredWhenPresent.map((name) => ` "${name}"`).join(')?(?:')})?)\\)` +
    ';created=([1-9][0-9]{0,11});nonce="([A-Za-z0-9_-]{16,64})"' +
    ';keyid="([a-z0-9-]{1,32}):([A-Za-z0-9_-]{1,32})";alg="hmac-sha256")$',
)
const signaturePattern = /^postern=:([A-Za-z0-9+/]{43}=):$/

/**
 * Verifies requests (RFC 9421 §3.2) signed with a key of the ring for `keyName`. Keep one verifier per ring: it
 * remembers used signatures.
 */
export function createVerifier(ring: KeyRing, keyName: string, options: VerifierOptions = {}): Verifier {
  assertKeyName(keyName)
  const { maxAgeMs = 30_000, maxAheadMs = 5_000, maxNonces = 1_000_000 } = options
  const macs = new Map<string, Mac>([[ring.current.id, createMac(ring.current.secret)]])
  if (ring.previous !== undefined) macs.set(ring.previous.id, createMac(ring.previous.secret))
  const replays: ReplayCache = createReplayCache(maxNonces)

  /** Named operators sign as `operator-NAME` with a derived key. */
  const operatorMac = (name: string | undefined, keyId: string): Mac | undefined => {
    if (name === undefined || options.revokedOperators?.has(name) === true) return undefined
    const key = findKey(ring, keyId)
    return key && createMac(deriveOperatorSecret(key, name))
  }

  return {
    verify({ method, target, headers }, nowMs) {
      const collected = collectHeaders(headers)
      if (typeof collected === 'string') return reject(collected)
      const signatureInput = collected.get(signatureInputHeader)
      const signature = collected.get(signatureHeader)
      const context = collected.get(contextHeader)
      const assertion = collected.get(assertionHeader)
      if (signatureInput === undefined || signature === undefined || context === undefined || assertion === undefined)
        return reject('missing_header')

      // Every group is present if the pattern matches.
      const [, parameters = '', optional = '', created = '', nonce = '', signer = '', keyId = ''] =
        signatureInputPattern.exec(signatureInput) ?? []
      if (parameters === '') return reject('malformed_signature_input')
      const given = signaturePattern.exec(signature)?.[1]
      if (given === undefined) return reject('malformed_signature')

      const covered: string[] = ['@method', '@request-target', ...mandatoryHeaders]
      for (const name of coveredWhenPresent) {
        const isCovered = optional.includes(`"${name}"`)
        if (isCovered) covered.push(name)
        else if (collected.has(name)) return reject('uncovered_header')
      }

      const createdMs = Number(created) * 1000
      if (!(nowMs - createdMs <= maxAgeMs)) return reject('too_old')
      if (!(createdMs - nowMs <= maxAheadMs)) return reject('from_the_future')

      const operator = keyName === operatorKeyName ? operatorNameOf(signer) : undefined
      const mac = signer === keyName ? macs.get(keyId) : operatorMac(operator, keyId)
      if (mac === undefined) return reject('unknown_key')
      const message = { method, target, fields: (name: string) => valuesOf(collected, name) }
      const base = signatureBase(message, covered, parameters)
      if (base === undefined) return reject('missing_header')
      // As text, because several base64 texts decode to the same bytes.
      if (!timingSafeEqual(Buffer.from(mac.base64(base)), Buffer.from(given))) return reject('wrong_signature')

      // After the signature check, so that only signers can fill the cache.
      const use = replays.use(nonce, createdMs + maxAgeMs, nowMs)
      if (use !== 'first') return reject(use === 'again' ? 'replayed' : 'replay_cache_full')

      const caller = parseContext(context)
      if (caller === undefined) return reject('malformed_context')
      const claimed = assertion === noAssertion ? nilTenantId : parseAssertion(assertion)?.tenantId
      if (claimed !== caller.tenantId) return reject('assertion_of_another_tenant')
      if (keyName !== operatorKeyName) return { ok: true, context: { ...caller, assertion } }
      // The credential decides the operator's name, not the caller.
      if (caller.kind !== 'operator') return reject('not_an_operator')
      const name = operator ?? operatorKeyName
      return { ok: true, context: { ...caller, id: name, label: name, assertion } }
    },
  }
}

function operatorNameOf(signer: string): string | undefined {
  const name = signer.startsWith(`${operatorKeyName}-`) ? signer.slice(operatorKeyName.length + 1) : ''
  return isOperatorName(name) ? name : undefined
}

function reject(reason: SignatureRefusal): Verification {
  return { ok: false, reason }
}

function valuesOf(collected: ReadonlyMap<string, string>, name: string): readonly string[] {
  const value = collected.get(name)
  return value === undefined ? [] : [value]
}

/** Each may occur once. A name with `_` is ambiguous, because some servers read it as `-`. */
function collectHeaders(headers: readonly string[]): Map<string, string> | SignatureRefusal {
  const collected = new Map<string, string>()
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at]?.toLowerCase()
    const value = headers[at + 1]
    if (name === undefined || value === undefined) return 'malformed_headers'
    const folded = name.includes('_') ? name.replaceAll('_', '-') : name
    if (!watchedHeaders.has(folded)) {
      if (platformPrefix.test(folded)) return 'unsigned_platform_header'
      continue
    }
    if (folded !== name) return 'ambiguous_header'
    if (collected.has(name)) return 'duplicate_header'
    collected.set(name, value)
  }
  return collected
}
