import {
  type ApiKeyFilter,
  type BulkReceipt,
  type ChangeKeys,
  changeKeys,
  maxBulkKeys,
  previewBulk,
} from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { type Actor, actorOf } from '../actor.ts'
import { toApiKey } from '../api-key/answer.ts'
import { assertAllowed } from '../api-key/assert-allowed.ts'
import { type KeyFilter, countKeys, listKeys } from '../api-key/list-keys.ts'
import { resolveOwner } from '../api-key/owner.ts'
import { type MutableFields, decideChange, decideText } from '../api-key/rules.ts'
import { type KeyChange, findKeys, findKeysForChange, revokeKeys, updateKeys } from '../api-key/store.ts'
import type { StoredKey } from '../api-key/stored-key.ts'
import type { Deps } from '../deps.ts'
import { bulkVersion, findRevokedIds, findUnknownIds } from './selection.ts'
import { findRecentUse } from './store.ts'

export function bulkRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  type Reader = Parameters<typeof db.read>[0]

  async function listByIds(ids: readonly string[], reader: Reader): Promise<StoredKey[]> {
    return sortByIds(ids, await db.read(reader, async (tx) => await findKeys(tx, ids)))
  }

  async function listByFilter(given: ApiKeyFilter, reader: Reader): Promise<StoredKey[]> {
    const filter = toKeyFilter(given)
    const page = { after: undefined, limit: maxBulkKeys + 1 }
    const keys = await db.read(reader, async (tx) => await listKeys(tx, filter, page))
    if (keys.length <= maxBulkKeys) return keys
    const count = await db.read(reader, async (tx) => await countKeys(tx, filter))
    throw problem('invalid_content', {
      detail: `The filter matches ${count} keys; one call takes at most ${maxBulkKeys}. Narrow the filter.`,
      errors: [{ pointer: '/filter', code: 'too_many', detail: `must match at most ${maxBulkKeys} keys` }],
    })
  }

  contractRoute(app, previewBulk, async ({ body, context }) => {
    const keys =
      body.ids === undefined ? await listByFilter(body.filter ?? {}, context) : await listByIds(body.ids, context)
    const ids = keys.map(({ id }) => id)
    const uses = await db.read(context, async (tx) => await findRecentUse(tx, ids))
    const shown = keys.map((key) => {
      const { id, label, masked, state, owner, expires_at, last_used_at } = toApiKey(key)
      const { isRecent = false, addresses = [] } = uses.get(id) ?? {}
      const use = { used_last_day: isRecent, recent_addresses: [...addresses] }
      return { id, label, masked, state, owner, expires_at, last_used_at, ...use }
    })
    return {
      version: bulkVersion(keys),
      active: shown.filter(({ state }) => state === 'active').length,
      used_last_day: shown.filter(({ used_last_day: isUsed }) => isUsed).length,
      keys: shown,
    }
  })

  contractRoute(app, changeKeys, async ({ body, context, log }): Promise<BulkReceipt> => {
    const actor = actorOf(context)
    const id = crypto.randomUUID()
    assertText(body)
    const isNarrowing = body.action === 'revoke' || body.action === 'shorten'
    const change = async () =>
      await db.write(context, async (tx) => await changeSelected(tx, { body, bulk: id, actor }))
    const { keys, changed } = isNarrowing ? await enforcer.runNarrowing('key', change) : await change()
    if (isNarrowing) {
      // Operators repeat these events after restoring a backup that lacks the change.
      const event = body.action === 'revoke' ? 'key_revoked' : 'key_narrowed'
      for (const key of keys) log.info({ event, key_id: key.id, tenant_id: context.tenantId, bulk: id })
    }
    // Also for unchanged keys: the first call may have died before enforcement was confirmed.
    const enforced = isNarrowing ? await enforcer.enforceKeys(keys.map(({ hash }) => hash)) : undefined
    return {
      id,
      action: body.action,
      changed: changed.size,
      enforcement: enforced?.enforcement ?? null,
      keys: keys.map((key) => {
        const { label, masked, state, expires_at, version } = toApiKey(key)
        const enforced_at = enforced?.at.toISOString() ?? null
        return { id: key.id, label, masked, state, expires_at, version, changed: changed.has(key.id), enforced_at }
      }),
    }
  })
}

/** Changes all keys or none. Accepts an old version if no key needs a change. */
async function changeSelected(
  tx: Tx,
  { body, bulk, actor }: { readonly body: ChangeKeys; readonly bulk: string; readonly actor: Actor },
): Promise<{ readonly keys: readonly StoredKey[]; readonly changed: ReadonlySet<string> }> {
  const current = sortByIds(body.ids, await findKeysForChange(tx, body.ids))
  const changes = body.action === 'revoke' ? [] : await decideChanges(tx, { body, current, bulk, actor })
  const isDone = body.action === 'revoke' ? current.every(({ revoked }) => revoked !== null) : changes.length === 0
  if (!isDone && bulkVersion(current) !== body.version) {
    throw problem('precondition_failed', {
      detail: 'One of the keys changed after the preview, so none was changed. Preview the change again.',
    })
  }
  if (isDone) return { keys: current, changed: new Set() }
  const changed =
    body.action === 'revoke'
      ? await revokeKeys(tx, { ids: body.ids, reason: body.reason, bulk, actor })
      : await updateKeys(tx, { changes, actor })
  const fresh = new Map(changed.map((key) => [key.id, key]))
  return { keys: current.map((key) => fresh.get(key.id) ?? key), changed: new Set(fresh.keys()) }
}

async function decideChanges(
  tx: Tx,
  {
    body,
    current,
    bulk,
    actor,
  }: {
    readonly body: ChangeKeys
    readonly current: readonly StoredKey[]
    readonly bulk: string
    readonly actor: Actor
  },
): Promise<KeyChange[]> {
  const errors = findRevokedIds(body.ids, current)
  if (errors.length > 0) {
    throw problem('conflict', {
      detail: 'Revoked keys cannot be changed, so none was changed. Preview the change without them.',
      errors,
    })
  }
  const owner = body.owner === undefined ? undefined : await resolveOwner(tx, body.owner, actor)
  const changes = current.flatMap((key): KeyChange[] => {
    const decided = decideChange(key, wantedOf(body, key, owner))
    if (decided.kind === 'refused' || Object.keys(decided.changes).length === 0) return []
    const { label, expiresAt } = decided.next
    return [{ id: key.id, label, owner: decided.next.owner, expiresAt, detail: { changes: decided.changes, bulk } }]
  })
  // A repeated request must succeed even if the new expiry has passed.
  if (body.expires_at !== undefined && changes.length > 0) assertFuture(body.expires_at, current)
  return changes
}

function wantedOf(
  { label, expires_at: latest }: ChangeKeys,
  key: StoredKey,
  owner: MutableFields['owner'] | undefined,
): Partial<MutableFields> {
  return {
    ...(label === undefined ? {} : { label }),
    ...(owner === undefined ? {} : { owner }),
    ...(latest === undefined ? {} : { expiresAt: new Date(Math.min(Date.parse(latest), key.expiresAt.valueOf())) }),
  }
}

function assertText({ reason, label }: ChangeKeys): void {
  if (reason !== undefined) assertAllowed(decideText('/reason', reason))
  if (label !== undefined) assertAllowed(decideText('/label', label))
}

function assertFuture(text: string, [key]: readonly StoredKey[]): void {
  if (key === undefined || new Date(text) > key.readAt) return
  throw problem('invalid_content', {
    detail: '`expires_at` must be in the future. To end keys now, revoke them.',
    errors: [{ pointer: '/expires_at', code: 'not_in_future', detail: 'must be in the future' }],
  })
}

/** Returns the keys in the order of the ids. Throws a 422 problem if one is missing. */
function sortByIds(ids: readonly string[], keys: readonly StoredKey[]): StoredKey[] {
  const errors = findUnknownIds(ids, keys)
  if (errors.length > 0) throw problem('invalid_content', { errors })
  const byId = new Map(keys.map((key) => [key.id, key]))
  return ids.flatMap((id) => byId.get(id) ?? [])
}

function toKeyFilter(given: ApiKeyFilter): KeyFilter {
  return {
    states: given.state,
    scopes: undefined,
    label: given.label,
    owner: given.owner,
    health: typeof given.health === 'string' ? [given.health] : given.health,
    expiresBefore: given.expires_before,
    unusedSince: given.unused_since,
  }
}
