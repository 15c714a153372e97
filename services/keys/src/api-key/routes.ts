import { setTimeout as sleep } from 'node:timers/promises'
import { generateKey } from '@postern/api-key'
import {
  createApiKey,
  getApiKey,
  listApiKeys,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
  uuidSchema,
} from '@postern/contracts'
import { leaseMs } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import {
  type App,
  type ContractInput,
  type RequestInfo,
  contractRoute,
  versionProblem,
  patchRoute,
  problem,
  storedList,
} from '@postern/service-kit'
import { actorOf } from '../actor.ts'
import type { Deps } from '../deps.ts'
import { findKeyPolicy, findKeyPolicyForChange, lockMostKeys } from '../policy/store.ts'
import { etagOf, matchesVersion, toApiKey } from './answer.ts'
import { assertAllowed } from './assert-allowed.ts'
import { countActiveKeys, countKeys, listKeys } from './list-keys.ts'
import { defaultOwner, resolveOwner } from './owner.ts'
import { isFirstUseAwaited, setPendingOverlap } from './pending-overlap.ts'
import {
  decideAddresses,
  decideChange,
  decideExpiry,
  decideOverlap,
  decideOwner,
  decideRequired,
  decideScopes,
  decideSuccessorExpiry,
  decideText,
  isNarrowable,
} from './rules.ts'
import {
  findKey,
  findKeyForChange,
  findLiveSuccessor,
  insertKey,
  isPredecessorActive,
  revokeKey,
  updateKey,
} from './store.ts'

/**
 * With this overlap, a rotation need not wait: a gateway that has not seen the old key's new expiry by then has lost
 * its lease.
 */
const overlapWithoutWaitMs = 2 * leaseMs
const firstVersion = 1

export function apiKeyRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  contractRoute(app, createApiKey, async ({ body, context, answer, storeRefusal }) => {
    const actor = actorOf(context)
    const label = assertAllowed(decideText('/label', body.label))
    const note = body.note === undefined ? null : assertAllowed(decideText('/note', body.note))
    const addresses = assertAllowed(decideAddresses(body.allowed_addresses))
    const { value, hash, lastFour } = generateKey()
    const key = await db.write(context, async (tx) => {
      const policy = (await findKeyPolicy(tx)) ?? rejectUnknownTenant()
      const expiresAt = assertAllowed(decideExpiry({ choice: body.expires_in, expiresAt: body.expires_at, ...policy }))
      assertAllowed(decideRequired(addresses, policy.requiredAddresses))
      assertAllowed(decideScopes(body.scopes, policy.forbidWildcards))
      const owner = body.owner === undefined ? defaultOwner(actor) : await resolveOwner(tx, body.owner, actor)
      assertAllowed(decideOwner(owner, policy.requireOwner))
      if (policy.mostKeys !== null) await assertRoomForKey(tx)
      const made = { hash, lastFour, label, note, owner, scopes: body.scopes, addresses, rotatedFrom: null }
      const created = await insertKey(tx, context.tenantId, { ...made, createdAt: policy.now, expiresAt }, actor)
      // A limit that was set since the policy was read.
      if (policy.mostKeys === null && (await lockMostKeys(tx)) !== null) throw policyChanged()
      await storeRefusal(tx, alreadyCreatedDetail(created.id))
      return created
    })
    answer.header('cache-control', 'no-store')
    answer.header('location', `/api/v1/api-keys/${key.id}`)
    answer.etag(etagOf(key))
    return { ...toApiKey(key), key: value }
  })

  storedList(app, listApiKeys, {
    source: db,
    key: () => uuidSchema,
    asked: ({ query }) => ({
      states: query.state,
      scopes: query.scope,
      label: query.label,
      owner: query.owner,
      health: query.health,
      expiresBefore: query.expires_before,
      unusedSince: query.unused_since,
    }),
    list: listKeys,
    count: countKeys,
    keyOf: ({ id }) => id,
    show: toApiKey,
  })

  contractRoute(app, getApiKey, async ({ params, context, answer }) => {
    const key = await db.read(context, async (tx) => await findKey(tx, params.id))
    if (key === undefined) throw problem('not_found')
    answer.etag(etagOf(key))
    return toApiKey(key)
  })

  contractRoute(app, revokeApiKey, async ({ params, body, context, answer, log }) => {
    const actor = actorOf(context)
    const reason = body?.reason === undefined ? undefined : assertAllowed(decideText('/reason', body.reason))
    const key = await enforcer.runNarrowing(
      'key',
      async () =>
        await db.write(
          context,
          async (tx) => (await revokeKey(tx, { id: params.id, reason, actor })) ?? (await findKey(tx, params.id)),
        ),
    )
    if (key === undefined) throw problem('not_found')
    // Operators repeat these events after restoring a backup that lacks the revocation.
    log.info({ event: 'key_revoked', key_id: key.id, tenant_id: context.tenantId })
    // Also for a revoked key: the first call may have died before enforcement was confirmed.
    const enforcement = await enforcer.enforceKey(key.hash)
    answer.etag(etagOf(key))
    return { ...toApiKey(key), enforcement }
  })

  const currentResource = {
    computed: ['last_used_at', 'last_refused_at'],
    read: async (input: Pick<ContractInput<typeof updateApiKey>, 'params' | 'context' | 'raw' | 'answer'>) => {
      const key = await db.read(input.context, async (tx) => await findKey(tx, input.params.id))
      if (key === undefined) return undefined
      const confirm = (): void => {
        const ifMatch = ifMatchOf(input)
        if (!matchesVersion(ifMatch, key.version)) throw versionProblem(ifMatch)
        input.answer.etag(etagOf(key))
      }
      return { resource: toApiKey(key), confirm }
    },
  }
  patchRoute(app, updateApiKey, currentResource, async (input) => {
    const { params, body, context, answer, log } = input
    const actor = actorOf(context)
    const addresses =
      body.allowed_addresses === undefined ? undefined : assertAllowed(decideAddresses(body.allowed_addresses))
    const { key, isNarrowing, isLogged } = await enforcer.runNarrowing(
      'key',
      async () =>
        await db.write(context, async (tx) => {
          const current = await findKeyForChange(tx, params.id)
          if (current === undefined) throw problem('not_found')
          const owner = body.owner === undefined ? undefined : await resolveOwner(tx, body.owner, actor)
          const change = decideChange(current, {
            ...(body.label === undefined ? {} : { label: body.label }),
            ...(body.note === undefined ? {} : { note: body.note }),
            ...(owner === undefined ? {} : { owner }),
            ...(body.scopes === undefined ? {} : { scopes: body.scopes }),
            ...(addresses === undefined ? {} : { addresses }),
            ...(body.expires_at === undefined ? {} : { expiresAt: new Date(body.expires_at) }),
          })
          const isDone = change.kind === 'change' && Object.keys(change.changes).length === 0
          const asksForLess = Object.keys(body).some(isNarrowable)
          // Accept an old tag if the key is already as narrow: the first attempt's response may not have arrived (RFC
          // 9110 §13.1.1).
          const ifMatch = ifMatchOf(input)
          if (!matchesVersion(ifMatch, current.version) && !(isDone && asksForLess)) throw versionProblem(ifMatch)
          if (current.revoked !== null) {
            throw problem('conflict', {
              detail: 'The key is revoked and cannot be changed. Create a new key.',
            })
          }
          if (body.label !== undefined) assertAllowed(decideText('/label', body.label))
          if (typeof body.note === 'string') assertAllowed(decideText('/note', body.note))
          if (body.expires_at !== undefined && !isDone) assertFuture(body.expires_at, current.readAt)
          if (change.kind === 'refused') {
            throw problem('conflict', {
              detail: 'A key cannot be given more access. Create a new key and revoke this one.',
              errors: change.errors,
            })
          }
          if (change.changes['allowed_addresses'] !== undefined) {
            const policy = (await findKeyPolicy(tx)) ?? rejectUnknownTenant()
            assertAllowed(decideRequired(change.next.addresses, policy.requiredAddresses))
          }
          // An earlier request may have died after its commit, so enforce and log its change again.
          if (isDone) {
            return { key: current, isNarrowing: true, isLogged: asksForLess && current.version > firstVersion }
          }
          const detail = { changes: change.changes }
          const changed = await updateKey(tx, { id: current.id, ...change.next, event: 'updated', detail, actor })
          return { key: changed, isNarrowing: change.isNarrowing, isLogged: change.isNarrowing }
        }),
    )
    if (isLogged) log.info({ event: 'key_narrowed', key_id: key.id, tenant_id: context.tenantId })
    if (isNarrowing) {
      await enforcer.enforceKey(key.hash)
    } else {
      await enforcer.announceKey(key.hash)
    }
    answer.etag(etagOf(key))
    return toApiKey(key)
  })

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
          const policy = (await findKeyPolicy(tx)) ?? rejectUnknownTenant()
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
    answer.header('cache-control', 'no-store')
    answer.header('location', `/api/v1/api-keys/${successor.id}`)
    answer.etag(etagOf(successor))
    return { ...toApiKey(successor), key: value }
  })
}

/** The value of a key is in one response and is not stored. A repeated request returns only the id. */
function alreadyCreatedDetail(id: string): string {
  return `This request already created the API key ${id}. Only the first response contained its value. If you did not receive it, revoke the key and create another one with a new Idempotency-Key.`
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

function policyChanged(): Error {
  const detail = 'The key policy was changed at the same time, so no key was created. Try again.'
  return problem('service_unavailable', { detail, retryAfterSeconds: 1 })
}

/** Locks the policy, so that concurrent requests count one after the other. */
async function assertRoomForKey(tx: Tx): Promise<void> {
  const { mostKeys } = (await findKeyPolicyForChange(tx)) ?? rejectUnknownTenant()
  const active = await countActiveKeys(tx)
  if (mostKeys === null || active < mostKeys) return
  throw problem('conflict', {
    detail: `The tenant has ${active} active keys, and its policy allows ${mostKeys}. Revoke keys that are not needed, or change the policy.`,
  })
}

function assertFuture(text: string, now: Date): void {
  if (new Date(text) > now) return
  throw problem('invalid_content', {
    detail: '`expires_at` must be in the future. To end a key now, revoke it.',
    errors: [{ pointer: '/expires_at', code: 'not_in_future', detail: 'must be in the future' }],
  })
}

function ifMatchOf({ raw }: Pick<RequestInfo, 'raw'>): string {
  const given = raw.headers['if-match']
  if (given === undefined) {
    throw problem('precondition_required', { detail: 'Send `If-Match` with the `ETag` of the key that you read.' })
  }
  return given
}

/** An assertion can name a tenant that no longer exists. */
function rejectUnknownTenant(): never {
  throw problem('not_found')
}
