import { getEvidencePolicy, updateEvidencePolicy } from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { actorOf } from '../upload/record.ts'
import { reading } from '../upload/room.ts'
import { findPolicy, setPolicy } from './store.ts'

/** How long the tenant keeps evidence: read and set by its administrators. */
export function retentionRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, getEvidencePolicy, async ({ context, answer }) => {
    const policy = await reading(async () => await db.read(context, findPolicy))
    answer.etag(etagOf(policy))
    return policy
  })

  contractRoute(app, updateEvidencePolicy, async ({ body, context, answer, raw, requestId, log }) => {
    const given = raw.headers['if-match']
    if (given === undefined) {
      throw problem('precondition_required', { detail: 'Send If-Match with the ETag of the policy as you read it.' })
    }
    const tags = given.split(',').map((tag) => tag.trim())
    const actor = actorOf(context)
    let isChanged = false
    const policy = await reading(
      async () =>
        await db.write(context, async (tx) => {
          const current = await findPolicy(tx)
          if (!tags.includes('*') && !tags.includes(etagOf(current))) return undefined
          if (current.retention_years === body.retention_years) return current
          isChanged = true
          return await setPolicy(tx, current.version, body.retention_years, actor)
        }),
    )
    if (policy === undefined) {
      throw problem('precondition_failed', { detail: 'Read the policy again and repeat the change on what it is now.' })
    }
    if (isChanged) {
      log.info({
        event: 'evidence_policy_set',
        request_id: requestId,
        tenant_id: context.tenantId,
        version: policy.version,
        retention_years: policy.retention_years,
        actor_type: actor.type,
        actor_id: actor.id,
      })
    }
    answer.etag(etagOf(policy))
    return policy
  })
}

function etagOf({ version }: { readonly version: number }): string {
  return `"${version}"`
}
