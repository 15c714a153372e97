import { isDeepStrictEqual } from 'node:util'
import { getKeyPolicy, listKeyPolicyEvents as listEventsRoute, updateKeyPolicy } from '@postern/contracts'
import {
  type App,
  type ContractInput,
  assertIfMatch,
  contractRoute,
  patchRoute,
  problem,
  storedList,
} from '@postern/service-kit'
import { z } from 'zod'
import { actorOf } from '../actor.ts'
import { assertAllowed } from '../api-key/assert-allowed.ts'
import { decideAddresses } from '../api-key/rules.ts'
import type { Deps } from '../deps.ts'
import {
  type KeyRules,
  countKeyPolicyEvents,
  findKeyPolicy,
  findKeyPolicyForChange,
  listKeyPolicyEvents,
  setKeyPolicy,
  toKeyPolicy,
} from './store.ts'

export function policyRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, getKeyPolicy, async ({ context, answer }) => {
    const policy = await db.read(context, findKeyPolicy)
    if (policy === undefined) throw problem('not_found')
    answer.etag(etagOf(policy))
    return toKeyPolicy(policy)
  })

  const currentResource = {
    read: async (input: Pick<ContractInput<typeof updateKeyPolicy>, 'context' | 'raw' | 'answer'>) => {
      const policy = await db.read(input.context, findKeyPolicy)
      if (policy === undefined) return undefined
      const confirm = (): void => {
        assertIfMatch(input, etagOf(policy))
        input.answer.etag(etagOf(policy))
      }
      return { resource: toKeyPolicy(policy), confirm }
    },
  }
  patchRoute(app, updateKeyPolicy, currentResource, async ({ body, context, answer, raw, requestId, log }) => {
    const actor = actorOf(context)
    const wanted =
      body.required_addresses === undefined
        ? undefined
        : assertAllowed(decideAddresses(body.required_addresses, '/required_addresses'))
    let isChanged = false
    const policy = await db.write(context, async (tx) => {
      const current = await findKeyPolicyForChange(tx)
      if (current === undefined) throw problem('not_found')
      assertIfMatch({ raw }, etagOf(current))
      const next = {
        maxKeyDays: body.max_key_days ?? current.maxKeyDays,
        requiredAddresses: wanted ?? current.requiredAddresses,
        forbidWildcards: body.forbid_wildcards ?? current.forbidWildcards,
        requireOwner: body.require_owner ?? current.requireOwner,
        mostKeys: body.most_keys === undefined ? current.mostKeys : body.most_keys,
        rotationDays: body.rotation_days ?? current.rotationDays,
        revokeIdleDays: body.revoke_idle_days === undefined ? current.revokeIdleDays : body.revoke_idle_days,
        auditRetentionDays: body.audit_retention_days ?? current.auditRetentionDays,
      } satisfies KeyRules
      isChanged = !isDeepStrictEqual({ ...current, ...next }, current)
      if (isChanged) await setKeyPolicy(tx, next, actor)
      // Read again: after a concurrent change, the first read may lack its author.
      return (await findKeyPolicy(tx)) ?? current
    })
    // Contains every rule, so that operators can repeat the change after restoring a backup.
    if (isChanged) {
      log.info({
        event: 'key_policy_set',
        request_id: requestId,
        tenant_id: context.tenantId,
        version: policy.version,
        max_key_days: policy.maxKeyDays,
        required_addresses: policy.requiredAddresses,
        forbid_wildcards: policy.forbidWildcards,
        require_owner: policy.requireOwner,
        most_keys: policy.mostKeys,
        rotation_days: policy.rotationDays,
        revoke_idle_days: policy.revokeIdleDays,
        audit_retention_days: policy.auditRetentionDays,
        actor_type: actor.type,
        actor_id: actor.id,
      })
    }
    answer.etag(etagOf(policy))
    return toKeyPolicy(policy)
  })

  storedList(app, listEventsRoute, {
    source: db,
    key: () => versionSchema,
    asked: () => undefined,
    list: async (tx, _, place) => await listKeyPolicyEvents(tx, place),
    count: countKeyPolicyEvents,
    keyOf: ({ version }) => version,
    show: (event) => event,
  })
}

const versionSchema = z.int32().min(1)

function etagOf({ version }: { readonly version: number }): string {
  return `"${version}"`
}
