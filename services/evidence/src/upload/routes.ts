import { type Receipt, maxFilesAtOnce, reviseEvidence, uploadEvidence, uploadEvidenceForm } from '@postern/contracts'
import {
  type App,
  type AnswerKeeper,
  type RequestInfo,
  contractRoute,
  discardRest,
  problem,
} from '@postern/service-kit'
import { parseAssertion } from '@postern/signed-context'
import { actorOf } from '../actor.ts'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { warnOfQuarantine } from '../scan/warn.ts'
import { requireTestProcedures, requireUnlocked } from '../test-procedure/check.ts'
import { listReplacedProcedures } from './attachment-store.ts'
import { type NewEvidence, record, finishRecording } from './record.ts'
import { assertAwaited, replacedProblem, tooSlowProblem } from './refusal.ts'
import { assertQuota, reportLookupFailure } from './quota.ts'
import { finalizeBlob } from './finalize-blob.ts'
import { type OwnFile, findOwnFile } from './store.ts'
import { type ParsedUpload, type UploadQuery, universeWaitMs, parseUpload } from './parse-upload.ts'

type Parts = Pick<Deps, 'db' | 'blobs' | 'receipts' | 'scanner' | 'universe' | 'now' | 'cleanup'>
type Limits = Pick<Config, 'allowedTypes' | 'maxFileBytes' | 'stallMs' | 'tenantQuotaBytes'>
type Request = Pick<RequestInfo, 'raw' | 'context' | 'requestId' | 'log'> & Pick<AnswerKeeper, 'keep'>
type DescribedRequest = Request & { readonly query: UploadQuery }

export function uploadRoutes(app: App, deps: Parts, limits: Limits): void {
  contractRoute(app, uploadEvidence, async (input) => {
    input.answer.header('cache-control', 'no-store')
    const upload = await acceptUpload(deps, limits, input, maxFilesAtOnce)
    return await finish(deps, limits, input, upload, (receipts) =>
      upload.isMultipart ? [...receipts] : getOnly(receipts),
    )
  })

  contractRoute(app, uploadEvidenceForm, async (input) => {
    input.answer.header('cache-control', 'no-store')
    const upload = await acceptUpload(deps, limits, { ...input, query: noQuery }, maxFilesAtOnce)
    return await finish(deps, limits, input, upload, (receipts) => [...receipts])
  })

  contractRoute(app, reviseEvidence, async (input) => {
    input.answer.header('cache-control', 'no-store')
    try {
      const { id, revision, replacedProcedures } = await ownFile(deps, input.context, input.params.id)
      const upload = await acceptUpload(deps, limits, input, 1, replacedProcedures)
      return await finish(deps, limits, input, { ...upload, replaces: { id, revision } }, getOnly)
    } catch (error) {
      void discardRest(input.raw.body)
      throw error
    }
  })
}

/** A form describes its files in a part. */
const noQuery: UploadQuery = { classification: 'confidential' }

async function acceptUpload(
  deps: Parts,
  { allowedTypes, maxFileBytes, stallMs, tenantQuotaBytes }: Limits,
  request: DescribedRequest,
  maxFiles: number,
  replacedProcedures: readonly string[] = [],
): Promise<ParsedUpload> {
  const { db, blobs, scanner, universe, now } = deps
  const until = recordableUntil(request.context)
  const isInTime = () => now() < until
  const upload = await parseUpload(request, {
    blobs,
    maxFiles,
    now,
    limits: { maxBytes: maxFileBytes, stallMs, isInTime, scanner, allowedTypes },
    assertQuota: async (bytes) => await assertQuota({ db }, request.context, { bytes }, tenantQuotaBytes),
    requireTestProcedures: async (addresses, locateInput, waitMs) => {
      await requireUnlocked(universe, request, replacedProcedures, waitMs)
      return await requireTestProcedures(universe, request, addresses, locateInput, waitMs)
    },
  })
  await requireStillOpen(deps, request, upload, { replacedProcedures, isInTime })
  return upload
}

async function finish<T>(
  deps: Parts,
  { tenantQuotaBytes }: Limits,
  { context, requestId, log, keep, raw }: Request,
  { files, details, procedureIds, replaces }: Pick<NewEvidence, 'files' | 'details' | 'procedureIds' | 'replaces'>,
  answerOf: (receipts: readonly Receipt[]) => T,
): Promise<T> {
  const evidence = { files, details, procedureIds, context, requestId, ...(replaces === undefined ? {} : { replaces }) }
  const { answer, cleanUp: tidy } = await record(deps, evidence, tenantQuotaBytes, async (tx, receipts) => {
    const kept = await keep(tx, answerOf(receipts))
    assertAwaited(raw)
    return kept
  })
  warnOfQuarantine(log, requestId, files)
  await finishRecording(deps, tidy)
  return answer
}

async function requireStillOpen(
  deps: Parts,
  request: Request,
  { files, procedureIds }: ParsedUpload,
  {
    replacedProcedures,
    isInTime,
  }: { readonly replacedProcedures: readonly string[]; readonly isInTime: () => boolean },
): Promise<void> {
  try {
    if (!isInTime()) throw tooSlowProblem()
    await requireUnlocked(deps.universe, request, [...procedureIds, ...replacedProcedures], universeWaitMs)
  } catch (error) {
    // The universe rejects an expired assertion, so waiting is useless.
    const reported = isInTime() ? error : tooSlowProblem()
    await deps.cleanup.run(async () => {
      for (const { blob } of files) await finalizeBlob(deps, request.context, blob)
    })
    throw reported
  }
}

/** Files of others are the same 404 as missing ones. */
async function ownFile(
  { db }: Pick<Parts, 'db'>,
  context: RequestInfo['context'],
  id: string,
): Promise<OwnFile & { readonly replacedProcedures: readonly string[] }> {
  const [file, replacedProcedures] = await reportLookupFailure(
    async () =>
      await db.read(context, async (tx) =>
        Promise.all([findOwnFile(tx, id, actorOf(context)), listReplacedProcedures(tx, id)]),
      ),
  )
  if (file === undefined) throw problem('not_found')
  if (file.isReplaced) throw replacedProblem()
  return { ...file, replacedProcedures }
}

function getOnly(receipts: readonly Receipt[]): Receipt {
  const [receipt] = receipts
  if (receipt === undefined) throw new Error('there is no receipt')
  return receipt
}

function recordableUntil({ assertion }: RequestInfo['context']): number {
  return (parseAssertion(assertion)?.expiresAt ?? 0) * 1000
}
