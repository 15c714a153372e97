import { generateKey } from '@postern/api-key'
import { createApiKey, getApiKey, listApiKeys, revokeApiKey, updateApiKey, uuidSchema } from '@postern/contracts'
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
import { getKeyPolicy } from '../policy/get-key-policy.ts'
import { findKeyPolicyForChange, lockMostKeys } from '../policy/store.ts'
import { alreadyCreatedDetail, etagOf, matchesVersion, toApiKey, toCreatedKey } from './answer.ts'
import { assertAllowed } from './assert-allowed.ts'
import { countActiveKeys, countKeys, listKeys } from './list-keys.ts'
import { defaultOwner, resolveOwner } from './owner.ts'
import {
  decideAddresses,
  decideChange,
  decideExpiry,
  decideOwner,
  decideRequired,
  decideScopes,
  decideText,
  isNarrowable,
} from './rules.ts'
import { findKey, findKeyForChange, insertKey, revokeKey, updateKey } from './store.ts'

const firstVersion = 1

export function apiKeyRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  contractRoute(app, createApiKey, async ({ body, context, answer, storeRefusal }) => {
    const actor = actorOf(context)
    const label = assertAllowed(decideText('/label', body.label))
    const note = body.note === undefined ? null : assertAllowed(decideText('/note', body.note))
    const addresses = assertAllowed(decideAddresses(body.allowed_addresses))
    const { value, hash, lastFour } = generateKey()
    const key = await db.write(context, async (tx) => {
      const policy = await getKeyPolicy(tx)
      const expiresAt = assertAllowed(decideExpiry({ choice: body.expires_in, expiresAt: body.expires_at, ...policy }))
      assertAllowed(decideRequired(addresses, policy.requiredAddresses))
      assertAllowed(decideScopes(body.scopes, policy.forbidWildcards))
      const owner = body.owner === undefined ? defaultOwner(actor) : await resolveOwner(tx, body.owner, actor)
      assertAllowed(decideOwner(owner, policy.requireOwner))
      if (policy.mostKeys !== null) await assertRoomForKey(tx)
      const made = { hash, lastFour, label, note, owner, scopes: body.scopes, addresses, rotatedFrom: null }
      const created = await insertKey(tx, context.tenantId, { ...made, createdAt: policy.now, expiresAt }, actor)
      // A concurrent request may have set a limit since the policy was read.
      if (policy.mostKeys === null && (await lockMostKeys(tx)) !== null) throw policyChanged()
      await storeRefusal(tx, alreadyCreatedDetail(created.id))
      return created
    })
    return toCreatedKey(answer, key, value)
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
            const policy = await getKeyPolicy(tx)
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
}

function policyChanged(): Error {
  const detail = 'The key policy was changed at the same time, so no key was created. Try again.'
  return problem('service_unavailable', { detail, retryAfterSeconds: 1 })
}

/** Locks the policy, so that concurrent requests count one after the other. */
async function assertRoomForKey(tx: Tx): Promise<void> {
  const policy = await findKeyPolicyForChange(tx)
  if (policy === undefined) throw problem('not_found')
  const { mostKeys } = policy
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
