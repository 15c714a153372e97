import { getEvidencePolicy, updateEvidencePolicy } from '@postern/contracts'
import { type App, type ContractInput, assertIfMatch, contractRoute, patchRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { actorOf } from '../actor.ts'
import { findPolicy, setPolicy } from './store.ts'

export function retentionRoutes(app: App, { requestDb }: Pick<Deps, 'requestDb'>): void {
  contractRoute(app, getEvidencePolicy, async ({ context, answer }) => {
    const policy = await requestDb.read(context, findPolicy)
    answer.etag(etagOf(policy))
    return policy
  })

  const currentResource = {
    read: async (input: Pick<ContractInput<typeof updateEvidencePolicy>, 'context' | 'raw' | 'answer'>) => {
      const policy = await requestDb.read(input.context, findPolicy)
      const confirm = (): void => {
        assertIfMatch(input, etagOf(policy))
        input.answer.etag(etagOf(policy))
      }
      return { resource: policy, confirm }
    },
  }
  patchRoute(app, updateEvidencePolicy, currentResource, async (input) => {
    const { body, context, answer, requestId, log } = input
    const actor = actorOf(context)
    let isChanged = false
    const policy = await requestDb.write(context, async (tx) => {
      const current = await findPolicy(tx)
      assertIfMatch(input, etagOf(current))
      if (current.retention_years === body.retention_years) return current
      isChanged = true
      return await setPolicy(tx, current.version, body.retention_years, actor)
    })
    if (policy === undefined) {
      throw problem('precondition_failed', { detail: 'The policy has changed. Read it again and resend your change.' })
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
