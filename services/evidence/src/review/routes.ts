import { reviewEvidence } from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { etagOf, fileToDecide } from '../file/decide.ts'
import { insertDecision } from '../file/store.ts'
import { actorOf } from '../actor.ts'

export function reviewRoutes(app: App, { requestDb }: Pick<Deps, 'requestDb'>): void {
  contractRoute(app, reviewEvidence, async (input) => {
    const { params, body, context, requestId, answer, keep, log } = input
    const { verdict, reason } = body
    return await requestDb.write(context, async (tx) => {
      const { file, verdict: before } = await fileToDecide(tx, params.id)
      if (before !== verdict) {
        if (before !== null)
          throw problem('conflict', { detail: `The file is already ${before}, and a verdict is final.` })
        if (file.status !== 'accepted' && file.status !== 'released') {
          throw problem('conflict', { detail: `The file is ${file.status}: it cannot be reviewed.` })
        }
        const actor = actorOf(context)
        await insertDecision(tx, file.id, { kind: verdict, reason }, actor)
        const by = { actor, requestId }
        await insertCustodyEvents(tx, { fileId: file.id }, [{ kind: verdict, detail: { reason } }], by)
        const event = verdict === 'reviewed' ? 'file_reviewed' : 'file_rejected'
        log.info({ event, request_id: requestId, file_id: file.id, actor_id: actor.id })
      }
      const { file: judged } = await fileToDecide(tx, params.id)
      answer.etag(etagOf(judged))
      return await keep(tx, judged)
    })
  })
}
