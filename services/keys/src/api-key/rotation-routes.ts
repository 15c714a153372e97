import { setTimeout as sleep } from 'node:timers/promises'
import { generateKey } from '@postern/api-key'
import { rotateApiKey } from '@postern/contracts'
import { leaseMs } from '@postern/contracts/internal'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { actorOf } from '../actor.ts'
import type { Deps } from '../deps.ts'
import { getKeyPolicy } from '../policy/get-key-policy.ts'
import { alreadyCreatedDetail, toApiKey, toCreatedKey } from './answer.ts'
import { assertAllowed } from './assert-allowed.ts'
import { isFirstUseAwaited, setPendingOverlap } from './pending-overlap.ts'
import {
  decideChange,
  decideOverlap,
  decideOwner,
  decideRequired,
  decideScopes,
  decideSuccessorExpiry,
} from './rules.ts'
import { findKeyForChange, findLiveSuccessor, insertKey, isPredecessorActive, updateKey } from './store.ts'

/**
 * With this overlap, a rotation need not wait: a gateway that has not seen the old key's new expiry by then has lost
 * its lease.
 */
const overlapWithoutWaitMs = 2 * leaseMs

export function rotationRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  contractRoute(app, rotateApiKey, async ({ params, body, context, answer, raw, log, storeRefusal }) => {
    const actor = actorOf(context)
    const overlap = body?.overlap ?? '24h'
    const overlapMs = assertAllowed(decideOverlap(overlap))
    const isAfterUse = body?.overlap_from === 'first_use'
    const { value, hash, lastFour } = generateKey()
    const { old, successor } = await enforcer.runRotation(
      async () =>
        await db.write(context, async (tx) => {
          const current = await findKeyForChange(tx, params.id)
          if (current === undefined) throw problem('not_found')
          const { state } = toApiKey(current)
          if (state !== 'active') {
            throw problem('conflict', {
              detail: `The key is ${state}. Only active keys can be rotated. Create a new key.`,
            })
          }
          const replacedBy = await findLiveSuccessor(tx, current.id)
          if (replacedBy !== undefined) {
            throw problem('conflict', {
              detail: `The key was already replaced by the key ${replacedBy}. Use that key, or revoke it and rotate again.`,
            })
          }
          if (current.lastUsedAt === null && (await isFirstUseAwaited(tx, current))) {
            throw problem('conflict', {
              detail: `The overlap of the key ${current.rotatedFrom} waits for the first use of this one. Use this key and try again in a minute, or revoke one of them.`,
            })
          }
          const policy = await getKeyPolicy(tx)
          const expiresAt = assertAllowed(
            decideSuccessorExpiry({ choice: body?.expires_in, lifetimeMs: current.lifetimeMs, ...policy }),
          )
          if (policy.mostKeys !== null && (await isPredecessorActive(tx, current.rotatedFrom))) {
            throw problem('conflict', {
              detail: `The key ${current.rotatedFrom}, which this one replaces, still works, and the policy limits the number of keys. Revoke that key first.`,
            })
          }
          const { label, note, owner, addresses } = current
          const scopes = body?.scopes ?? current.scopes
          const narrowing = decideChange(current, { scopes })
          if (narrowing.kind === 'refused') {
            throw problem('conflict', {
              detail: 'A rotation cannot give the new key more scopes than the old one has. Create a new key instead.',
              errors: narrowing.errors,
            })
          }
          if (!decideRequired(addresses, policy.requiredAddresses).ok) {
            throw problem('conflict', {
              detail:
                'The key allows addresses outside the networks that the tenant requires. Narrow its allowed addresses first, or create a new key.',
            })
          }
          if (!decideScopes(scopes, policy.forbidWildcards).ok) {
            throw problem('conflict', {
              detail: 'The key has a wildcard, which the tenant forbids. Narrow its scopes first, or create a new key.',
            })
          }
          if (!decideOwner(owner, policy.requireOwner).ok) {
            throw problem('conflict', {
              detail: 'The key has no owner, and the tenant requires one. Choose an owner first.',
            })
          }
          const made = { hash, lastFour, label, note, owner, scopes, addresses, rotatedFrom: current.id }
          const created = await insertKey(tx, context.tenantId, { ...made, createdAt: policy.now, expiresAt }, actor)
          const end = isAfterUse
            ? current.expiresAt
            : new Date(Math.min(current.expiresAt.valueOf(), policy.now.valueOf() + overlapMs))
          const ended = await updateKey(tx, {
            id: current.id,
            label,
            note,
            owner,
            scopes: current.scopes,
            addresses,
            expiresAt: end,
            event: 'rotated',
            detail: {
              rotated_to: created.id,
              overlap,
              ...(isAfterUse ? { overlap_from: 'first_use' } : {}),
              expires_at: end.toISOString(),
            },
            actor,
          })
          if (isAfterUse) {
            const pending = { tenantId: context.tenantId, keyId: current.id, successorId: created.id, overlap }
            await setPendingOverlap(tx, pending)
          }
          await storeRefusal(tx, alreadyCreatedDetail(created.id))
          return { old: ended, successor: created }
        }),
      raw.headers['idempotency-key'] === undefined ? mayBeRotated : mayBeRotatedOnce,
    )
    log.info({ event: 'key_rotated', key_id: old.id, tenant_id: context.tenantId, successor_id: successor.id })
    if (isAfterUse || overlapMs >= overlapWithoutWaitMs) {
      await enforcer.announceKey(old.hash)
    } else {
      // Only this response contains the new key, so it is sent even if the old key's end is unconfirmed, but not before
      // every earlier lease has ended.
      await enforcer.enforceKey(old.hash).catch(async (error: unknown) => {
        log.warn({ event: 'rotation_unconfirmed', key_id: old.id, err: error })
        await sleep(leaseMs + 500)
      })
    }
    return toCreatedKey(answer, successor, value)
  })
}

const mayBeRotatedOnce = {
  detail:
    'The database did not confirm whether the key was rotated. Repeat the request with the same Idempotency-Key. This is safe and returns the result.',
  retryAfterSeconds: 1,
} as const

/** No Retry-After: clients would repeat the request and create another key. */
const mayBeRotated = {
  detail:
    'The database did not confirm whether the key was rotated. In a moment, list the keys. If one has this key as `rotated_from`, revoke it, because its value is lost. Then rotate again with an Idempotency-Key, or create a new key if this one has expired.',
} as const
