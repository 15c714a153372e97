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

/** A request as Node received it. */
export interface ReceivedRequest {
  readonly method: string
  /** `request.url` of node:http, untouched. */
  readonly target: string
  /** `request.rawHeaders` of node:http: name, value, name, value. Only there can a second occurrence be seen. */
  readonly headers: readonly string[]
}

/** Why a request is refused. For the log of the service; a client is told only that the request is not signed. */
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
  /** Checks one request. `nowMs` is the wall clock. Never throws, whatever the request holds. */
  verify(request: ReceivedRequest, nowMs: number): Verification
}

export interface VerifierOptions {
  /** How old a signature may be. Default 30,000 ms: it fences off a gateway that paused between deciding and sending. */
  readonly maxAgeMs?: number
  /** How far the signer's clock may be ahead. Default 5,000 ms. */
  readonly maxAheadMs?: number
  /**
   * Signatures remembered against replay; one that is valid beyond that is refused. Default 1,000,000: 15,000 requests a
   * second, at about 100 bytes each.
   */
  readonly maxNonces?: number
  /** Names of operators whose credentials are refused. Matters to the verifier of `operator` only. */
  readonly revokedOperators?: ReadonlySet<string>
}

const watchedHeaders: ReadonlySet<string> = new Set([
  ...mandatoryHeaders,
  ...coveredWhenPresent,
  signatureInputHeader,
  signatureHeader,
])

/** A header with such a name claims to speak for the platform; what the signature does not cover is a forgery. */
const platformPrefix = /^(?:x-)?(?:postern-|tenant)/

// The one form that the signer writes. Optional parts follow each other in a fixed order, so it is linear.
const signatureInputPattern = new RegExp(
  '^postern=(\\("@method" "@request-target" ' +
    mandatoryHeaders.map((name) => `"${name}"`).join(' ') +
    `((?:${coveredWhenPresent.map((name) => ` "${name}"`).join(')?(?:')})?)\\)` +
    ';created=([1-9][0-9]{0,11});nonce="([A-Za-z0-9_-]{16,64})"' +
    ';keyid="([a-z0-9-]{1,32}):([A-Za-z0-9_-]{1,32})";alg="hmac-sha256")$',
)
const signaturePattern = /^postern=:([A-Za-z0-9+/]{43}=):$/

/**
 * Gives what checks that requests were signed by the holder of a key ring for `keyName`, the name of this service's key
 * (RFC 9421 §3.2). What must be covered is decided here and not by the signer (§7.2.1).
 *
 * A service keeps one verifier per ring for its whole life: it remembers the signatures that were used.
 */
export function createVerifier(ring: KeyRing, keyName: string, options: VerifierOptions = {}): Verifier {
  assertKeyName(keyName)
  const { maxAgeMs = 30_000, maxAheadMs = 5_000, maxNonces = 1_000_000 } = options
  const macs = new Map<string, Mac>([[ring.current.id, createMac(ring.current.secret)]])
  if (ring.previous !== undefined) macs.set(ring.previous.id, createMac(ring.previous.secret))
  const replays: ReplayCache = createReplayCache(maxNonces)

  /** The MAC of a named operator, which signs as `operator-NAME` with a key derived from the ring's. */
  const operatorMac = (name: string | undefined, keyId: string): Mac | undefined => {
    if (name === undefined || options.revokedOperators?.has(name) === true) return undefined
    const key = findKey(ring, keyId)
    return key && createMac(deriveOperatorSecret(key, name))
  }

  return {
    verify({ method, target, headers }, nowMs) {
      const collected = collect(headers)
      if (typeof collected === 'string') return refuse(collected)
      const signatureInput = collected.get(signatureInputHeader)
      const signature = collected.get(signatureHeader)
      const context = collected.get(contextHeader)
      const assertion = collected.get(assertionHeader)
      if (signatureInput === undefined || signature === undefined || context === undefined || assertion === undefined)
        return refuse('missing_header')

      // All are there, or none: the pattern has no group that may be left out.
      const [, parameters = '', optional = '', created = '', nonce = '', signer = '', keyId = ''] =
        signatureInputPattern.exec(signatureInput) ?? []
      if (parameters === '') return refuse('malformed_signature_input')
      const given = signaturePattern.exec(signature)?.[1]
      if (given === undefined) return refuse('malformed_signature')

      const covered: string[] = ['@method', '@request-target', ...mandatoryHeaders]
      for (const name of coveredWhenPresent) {
        const isCovered = optional.includes(`"${name}"`)
        if (isCovered) covered.push(name)
        else if (collected.has(name)) return refuse('uncovered_header')
      }

      const createdMs = Number(created) * 1000
      if (!(nowMs - createdMs <= maxAgeMs)) return refuse('too_old')
      if (!(createdMs - nowMs <= maxAheadMs)) return refuse('from_the_future')

      const operator = keyName === operatorKeyName ? operatorNameOf(signer) : undefined
      const mac = signer === keyName ? macs.get(keyId) : operatorMac(operator, keyId)
      if (mac === undefined) return refuse('unknown_key')
      const message = { method, target, fields: (name: string) => occurrences(collected, name) }
      const base = signatureBase(message, covered, parameters)
      if (base === undefined) return refuse('missing_header')
      // As texts and not as decoded bytes: base64 has several spellings of the same bytes, and one of them is right.
      if (!timingSafeEqual(Buffer.from(mac.base64(base)), Buffer.from(given))) return refuse('wrong_signature')

      // Only now, so that nobody but a signer can fill the cache.
      const use = replays.use(nonce, createdMs + maxAgeMs, nowMs)
      if (use !== 'first') return refuse(use === 'again' ? 'replayed' : 'replay_cache_full')

      const caller = parseContext(context)
      if (caller === undefined) return refuse('malformed_context')
      const claimed = assertion === noAssertion ? nilTenantId : parseAssertion(assertion)?.tenantId
      if (claimed !== caller.tenantId) return refuse('assertion_of_another_tenant')
      if (keyName !== operatorKeyName) return { ok: true, context: { ...caller, assertion } }
      // The credential names the operator, not the caller.
      if (caller.kind !== 'operator') return refuse('not_an_operator')
      const name = operator ?? operatorKeyName
      return { ok: true, context: { ...caller, id: name, label: name, assertion } }
    },
  }
}

/** The name in the signer of a named operator's signature; undefined for other signers. */
function operatorNameOf(signer: string): string | undefined {
  const name = signer.startsWith(`${operatorKeyName}-`) ? signer.slice(operatorKeyName.length + 1) : ''
  return isOperatorName(name) ? name : undefined
}

function refuse(reason: SignatureRefusal): Verification {
  return { ok: false, reason }
}

function occurrences(collected: ReadonlyMap<string, string>, name: string): readonly string[] {
  const value = collected.get(name)
  return value === undefined ? [] : [value]
}

/**
 * Gives the headers that a signature concerns, by their lower-case names. Each may occur once and in one spelling: some
 * servers and languages read `_` as `-`, so a header of such a name is another value of the same thing.
 */
function collect(headers: readonly string[]): Map<string, string> | SignatureRefusal {
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
