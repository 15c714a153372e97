import type { Exchange } from '../exchange.ts'
import type { FailedAttempts } from '../limit/failed-attempts.ts'
import type { Refusal } from '../refusal.ts'
import type { Usage } from '../usage.ts'
import type { DatabaseClock } from './clocks.ts'
import { refuseAfterFailures, refuseInvalidKey, refuseKey } from './credential-refusals.ts'
import { decideKey } from './decide.ts'
import type { KeyEntry, KeyLookup } from './key-lookup.ts'
import type { Principal } from './principal.ts'
import { unavailable } from './refusal-answer.ts'
import type { RevocationWatermarks } from './revocation-watermarks.ts'

export interface KeyAuthentication {
  /** HOT PATH: no promise. Undefined if the key must be looked up. */
  findInMemory(exchange: Exchange, hash: string): Principal | Refusal | undefined
  read(exchange: Exchange, hash: string): Promise<Principal | Refusal>
}

export interface KeyAuthenticationParts {
  readonly keys: KeyLookup
  readonly watermarks: RevocationWatermarks
  readonly databaseClock: DatabaseClock
  readonly failedAttempts: FailedAttempts
  readonly usage: Pick<Usage, 'denied' | 'refused'>
  readonly found: { inMemory: number }
  readonly onCrash: (exchange: Exchange, error: unknown) => void
}

/** Attempts while the record keeps changing. */
const maxRounds = 5

export function createKeyAuthentication(parts: KeyAuthenticationParts): KeyAuthentication {
  const { keys, watermarks, databaseClock, failedAttempts, usage, found, onCrash } = parts

  function findInMemory(exchange: Exchange, hash: string): Principal | Refusal | undefined {
    const entry = keys.find(hash)
    if (entry === undefined) return undefined
    if (exchange.key === undefined) found.inMemory += 1
    return judge(exchange, entry)
  }

  /** Returns undefined if the entry must be read again. */
  function judge(exchange: Exchange, entry: KeyEntry): Principal | Refusal | undefined {
    const { principal } = entry
    const decision = decideKey(entry, watermarks, databaseClock, exchange.address)
    if (decision === 'outdated') return undefined
    exchange.principal = principal
    if (decision === 'accepted') {
      exchange.key = entry
      return principal
    }
    if (decision === 'key_revoked') usage.denied(principal, exchange.address, 'revoked')
    if (decision === 'key_expired') usage.denied(principal, exchange.address, 'expired')
    if (decision === 'address_not_allowed') usage.denied(principal, exchange.address, 'address')
    return refuseKey(exchange, decision)
  }

  async function read(exchange: Exchange, hash: string): Promise<Principal | Refusal> {
    for (let round = 0; round < maxRounds; round += 1) {
      let entry = keys.find(hash)
      if (entry === undefined) {
        const result = await lookUp(exchange, hash)
        if (result.kind === 'refusal') return result
        entry = result.entry
      }
      const judged = judge(exchange, entry)
      if (judged !== undefined) return judged
    }
    return unavailable
  }

  async function lookUp(
    exchange: Exchange,
    hash: string,
  ): Promise<Refusal | { readonly kind: 'found'; readonly entry: KeyEntry }> {
    // Good keys behind an address with many failures are looked up one batch at a time.
    const waitSeconds = failedAttempts.waitSeconds(exchange.address)
    const isSuspect = waitSeconds > 0
    if (watermarks.isRevoked(hash)) {
      // Only finds the owner of a revoked key, for the audit trail.
      keys.obtain(hash, isSuspect).then(
        (obtained) => {
          if (obtained.kind !== 'found') return
          usage.denied(obtained.entry.principal, exchange.address, 'revoked')
          usage.refused(obtained.entry.principal, exchange, 'key_revoked')
        },
        (error: unknown) => onCrash(exchange, error),
      )
      return refuseKey(exchange, 'key_revoked')
    }
    const obtained = await keys.obtain(hash, isSuspect)
    switch (obtained.kind) {
      case 'found':
        return obtained
      case 'unknown':
        failedAttempts.note(exchange.address)
        return isSuspect ? refuseAfterFailures(waitSeconds) : refuseInvalidKey(exchange)
      case 'unavailable':
        return isSuspect ? refuseAfterFailures(waitSeconds) : unavailable
      default:
        return obtained satisfies never
    }
  }

  return { findInMemory, read }
}
