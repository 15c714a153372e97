import { attachEvidence } from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { actorOf } from '../actor.ts'
import { eventsOfAttachment } from '../custody/rules.ts'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { type LocateInput, requireTestProcedures } from '../test-procedure/check.ts'
import { findAttachments, insertAttachments, lockDecisions } from './attachment-store.ts'
import { recordingProblem } from './refusal.ts'
import { type OwnFile, findOwnFile, recordFailure } from './store.ts'

export function attachmentRoutes(
  app: App,
  { requestDb, receipts, universe, now }: Pick<Deps, 'requestDb' | 'receipts' | 'universe' | 'now'>,
): void {
  contractRoute(app, attachEvidence, async ({ params, body, context, requestId, answer, keep }) => {
    answer.header('cache-control', 'no-store')
    const actor = actorOf(context)
    // Ownership first: for others the file does not exist.
    const file = await requestDb.read(context, async (tx) => await findOwnFile(tx, params.id, actor))
    assertAttachable(file)
    const procedureIds = await requireTestProcedures(universe, { context, requestId }, body.test_procedures, pointTo)
    try {
      return await requestDb.write(context, async (tx) => {
        await lockDecisions(tx, file.id)
        assertAttachable(await findOwnFile(tx, file.id, actor))
        const content = {
          id: file.id,
          reference: file.reference,
          sha256: file.sha256,
          test_procedures: body.test_procedures,
          note: body.note ?? null,
          attached_at: new Date(now()).toISOString(),
        }
        const added = await insertAttachments(tx, content, procedureIds, actor)
        const by = { actor, requestId, at: content.attached_at }
        await insertCustodyEvents(tx, { fileId: file.id }, eventsOfAttachment(added), by)
        const attachments = await findAttachments(tx, file.id, procedureIds)
        return await keep(tx, await receipts.signAttachment({ ...content, attachments }))
      })
    } catch (error) {
      throw recordingProblem(recordFailure(error), error)
    }
  })
}

function assertAttachable(file: OwnFile | undefined): asserts file is OwnFile {
  if (file === undefined) throw problem('not_found')
  if (file.isQuarantined) {
    throw problem('conflict', { detail: 'The file is in quarantine. Send a revision of it, and attach that.' })
  }
  if (file.isDismissed) {
    throw problem('conflict', { detail: 'The file was rejected, or purged. Send a revision of it, and attach that.' })
  }
}

const pointTo: LocateInput = (index) => ({ pointer: `/test_procedures/${index}` })
