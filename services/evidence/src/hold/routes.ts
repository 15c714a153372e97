import { type EvidenceFile, holdEvidence, liftHoldOfEvidence } from '@postern/contracts'
import { type App, type ContractInput, contractRoute, problem } from '@postern/service-kit'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { etagOf, fileToDecide } from '../file/decide.ts'
import { actorOf } from '../actor.ts'
import { insertHold } from './store.ts'

export function holdRoutes(app: App, deps: Pick<Deps, 'requestDb'>): void {
  contractRoute(app, holdEvidence, async (input) => await change(deps, input, 'set'))
  contractRoute(app, liftHoldOfEvidence, async (input) => await change(deps, input, 'lifted'))
}

async function change(
  { requestDb }: Pick<Deps, 'requestDb'>,
  { params, body, context, requestId, answer, keep, log }: ContractInput<typeof holdEvidence>,
  kind: 'set' | 'lifted',
): Promise<EvidenceFile> {
  return await requestDb.write(context, async (tx) => {
    const { file } = await fileToDecide(tx, params.id)
    if (kind === 'set' && file.status === 'purged') {
      throw problem('conflict', { detail: 'The file is purged: there is nothing left to hold.' })
    }
    if ((file.legal_hold !== null) !== (kind === 'set')) {
      const actor = actorOf(context)
      await insertHold(tx, file.id, { kind, reason: body.reason }, actor)
      const event = { kind: `legal_hold_${kind}`, detail: { reason: body.reason } } as const
      await insertCustodyEvents(tx, { fileId: file.id }, [event], { actor, requestId })
      log.warn({ event: event.kind, request_id: requestId, file_id: file.id, actor_id: actor.id })
    }
    const { file: changed } = await fileToDecide(tx, params.id)
    answer.etag(etagOf(changed))
    return await keep(tx, changed)
  })
}
