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
import { type App, type RequestInfo, contractRoute, notThisVersion, problem, storedList } from '@postern/service-kit'
import { actorOf } from '../actor.ts'
import type { Deps } from '../deps.ts'
import { findKeyPolicy } from '../policy/store.ts'
import { etagOf, matchesVersion, toApiKey } from './answer.ts'
import { allowedBy } from './refuse.ts'
import {
  decideAddresses,
  decideChange,
  decideExpiry,
  decideOverlap,
  decideRequired,
  decideSuccessorExpiry,
  decideText,
} from './rules.ts'
import {
  countKeys,
  findKey,
  findKeyForChange,
  findLiveSuccessor,
  insertKey,
  listKeys,
  revokeKey,
  updateKey,
} from './store.ts'

/**
 * From this overlap on, a rotation need not wait: any gateway that has not heard of the old key's new expiry by then has
 * lost its lease, and knows nothing about the key any more.
 */
const overlapWithoutWaitMs = 2 * leaseMs
/** Of a key that was never changed. */
const firstVersion = 1

/** The life of keys: made, read, narrowed, replaced, revoked. */
export function apiKeyRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  contractRoute(app, createApiKey, async ({ body, context, answer, keepRefusal }) => {
    const actor = actorOf(context)
    const label = allowedBy(decideText('/label', body.label))
    const addresses = allowedBy(decideAddresses(body.allowed_addresses))
    const { value, hash, lastFour } = generateKey()
    const key = await db.write(context, async (tx) => {
      const policy = (await findKeyPolicy(tx)) ?? refuseTenant()
      const expiresAt = allowedBy(decideExpiry({ choice: body.expires_in, expiresAt: body.expires_at, ...policy }))
      allowedBy(decideRequired(addresses, policy.requiredAddresses))
      const made = { hash, lastFour, label, scopes: body.scopes, addresses, rotatedFrom: null }
      const created = await insertKey(tx, context.tenantId, { ...made, createdAt: policy.now, expiresAt }, actor)
      await keepRefusal(tx, madeBefore(created.id))
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
    asked: ({ query }) => ({ states: query.state, scopes: query.scope, label: query.label }),
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
    const reason = body?.reason === undefined ? undefined : allowedBy(decideText('/reason', body.reason))
    const key = await enforcer.confirmed(
      'key',
      async () =>
        await db.write(
          context,
          async (tx) => (await revokeKey(tx, { id: params.id, reason, actor })) ?? (await findKey(tx, params.id)),
        ),
    )
    if (key === undefined) throw problem('not_found')
    // What a restored backup does not know is known by the log.
    log.info({ event: 'key_revoked', key_id: key.id, tenant_id: context.tenantId })
    // Also for a key that was revoked before: the call that did it may not have lived to see it enforced.
    const enforcement = await enforcer.enforceKey(key.hash)
    answer.etag(etagOf(key))
    return { ...toApiKey(key), enforcement }
  })

  contractRoute(app, updateApiKey, async (input) => {
    const { params, body, context, answer, log } = input
    const actor = actorOf(context)
    const addresses =
      body.allowed_addresses === undefined ? undefined : allowedBy(decideAddresses(body.allowed_addresses))
    const { key, isNarrowing, isLogged } = await enforcer.confirmed(
      'key',
      async () =>
        await db.write(context, async (tx) => {
          const current = await findKeyForChange(tx, params.id)
          if (current === undefined) throw problem('not_found')
          const change = decideChange(current, {
            ...(body.label === undefined ? {} : { label: body.label }),
            ...(body.scopes === undefined ? {} : { scopes: body.scopes }),
            ...(addresses === undefined ? {} : { addresses }),
            ...(body.expires_at === undefined ? {} : { expiresAt: new Date(body.expires_at) }),
          })
          const isDone = change.kind === 'change' && Object.keys(change.changes).length === 0
          const asksForLess = Object.keys(body).some((field) => field !== 'label')
          // A narrowing that is asked for and is so already is answered whatever tag it comes with (RFC 9110 §13.1.1): its own first
          // attempt may have made the tag old, and have been left without an answer or unconfirmed.
          const ifMatch = ifMatchOf(input)
          if (!matchesVersion(ifMatch, current.version) && !(isDone && asksForLess)) throw notThisVersion(ifMatch)
          if (current.revoked !== null) {
            throw problem('conflict', {
              detail: 'The key is revoked, and a revoked key never changes. Create a new key.',
            })
          }
          if (body.label !== undefined) allowedBy(decideText('/label', body.label))
          if (body.expires_at !== undefined && !isDone) assertFuture(body.expires_at, current.readAt)
          if (change.kind === 'refused') {
            throw problem('conflict', {
              detail: 'A key can only become narrower. Create a new key with what you need, and revoke this one.',
              errors: change.errors,
            })
          }
          if (change.changes['allowed_addresses'] !== undefined) {
            const policy = (await findKeyPolicy(tx)) ?? refuseTenant()
            allowedBy(decideRequired(change.next.addresses, policy.requiredAddresses))
          }
          // Nothing to do; but an earlier, equal request may have been left without an answer, so what there is is enforced.
          // For the same reason it is logged again, where there was an earlier change that it may repeat.
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

  contractRoute(app, rotateApiKey, async ({ params, body, context, answer, raw, log, keepRefusal }) => {
    const actor = actorOf(context)
    const overlap = body?.overlap ?? '24h'
    const overlapMs = allowedBy(decideOverlap(overlap))
    const { value, hash, lastFour } = generateKey()
    const { old, successor } = await enforcer.confirmedOnce(
      async () =>
        await db.write(context, async (tx) => {
          const current = await findKeyForChange(tx, params.id)
          if (current === undefined) throw problem('not_found')
          const { state } = toApiKey(current)
          if (state !== 'active') {
            throw problem('conflict', {
              detail: `The key is ${state}. Only an active key is rotated: create a new one.`,
            })
          }
          const replacedBy = await findLiveSuccessor(tx, current.id)
          if (replacedBy !== undefined) {
            throw problem('conflict', {
              detail: `The key was already rotated, to the key ${replacedBy}. Use that key, or revoke it and rotate again.`,
            })
          }
          const policy = (await findKeyPolicy(tx)) ?? refuseTenant()
          const expiresAt = allowedBy(
            decideSuccessorExpiry({ choice: body?.expires_in, madeForMs: current.madeForMs, ...policy }),
          )
          const { label, scopes, addresses } = current
          if (!decideRequired(addresses, policy.requiredAddresses).ok) {
            throw problem('conflict', {
              detail:
                'The key is not limited to the networks that the tenant requires by now. Narrow its allowed addresses first, or create a new key.',
            })
          }
          const made = { hash, lastFour, label, scopes, addresses, rotatedFrom: current.id }
          const created = await insertKey(tx, context.tenantId, { ...made, createdAt: policy.now, expiresAt }, actor)
          const end = new Date(Math.min(current.expiresAt.valueOf(), policy.now.valueOf() + overlapMs))
          const ended = await updateKey(tx, {
            id: current.id,
            label,
            scopes,
            addresses,
            expiresAt: end,
            event: 'rotated',
            detail: { rotated_to: created.id, overlap, expires_at: end.toISOString() },
            actor,
          })
          await keepRefusal(tx, madeBefore(created.id))
          return { old: ended, successor: created }
        }),
      raw.headers['idempotency-key'] === undefined ? mayBeRotated : mayBeRotatedOnce,
    )
    log.info({ event: 'key_rotated', key_id: old.id, tenant_id: context.tenantId, successor_id: successor.id })
    if (overlapMs >= overlapWithoutWaitMs) {
      await enforcer.announceKey(old.hash)
    } else {
      // The new key is in this answer alone: it is given also when the old one's end could not be confirmed, but not before the last
      // lease that was granted without it is over.
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

/** The value of a key is in one answer only, and nowhere kept: a repeated request learns what the first has made. */
function madeBefore(id: string): string {
  return `The request was carried out before and has made the API key ${id}. Its value was in that answer alone. If it did not reach you, revoke this key and make another one, with a new Idempotency-Key.`
}

const mayBeRotatedOnce = {
  detail:
    'It is not known whether the key was rotated. Repeat the request with the same Idempotency-Key: that is safe, and tells what was made.',
  retryAfterSeconds: 1,
} as const

/** Without a Retry-After: programs would take it for a word that they may repeat the request, and make another key. */
const mayBeRotated = {
  detail:
    'It is not known whether the key was rotated. Look in the list, in a moment, for a key whose `rotated_from` is this one: where there is one, nobody has its value, so revoke it. Then rotate again, with an Idempotency-Key: such a request can be repeated. A key that has expired meanwhile is not rotated: create a new one.',
} as const

function assertFuture(text: string, now: Date): void {
  if (new Date(text) > now) return
  throw problem('invalid_content', {
    detail: 'See `errors` for details. To end a key now, revoke it.',
    errors: [{ pointer: '/expires_at', code: 'not_in_future', detail: 'must be in the future' }],
  })
}

function ifMatchOf({ raw }: Pick<RequestInfo, 'raw'>): string {
  const given = raw.headers['if-match']
  if (given === undefined) {
    throw problem('precondition_required', { detail: 'Send If-Match with the ETag of the key as you read it.' })
  }
  return given
}

/** An assertion can name a tenant that the platform does not have (any more): nothing of it exists. */
function refuseTenant(): never {
  throw problem('not_found')
}
