import {
  createLogEntry,
  getLogCheckpoint,
  listLog,
  listLogOfFinding,
  logCheckpointKeys,
  logEntrySchema,
  logEntryStubSchema,
  maxLogWalk,
  parseResourceAddress,
  verifyLogOfFinding,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  completedRoute,
  contractList,
  contractRoute,
  heartbeat,
  openPage,
  problem,
  streamList,
} from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { getFindingId } from '../finding/get-finding-id.ts'
import { lockFinding } from '../finding/store.ts'
import { invalidContent, mayRead } from '../request.ts'
import { createReferenceCheck } from '../reference/check.ts'
import { createRecorder } from './record.ts'
import { sealedCheckpoint } from './seal.ts'
import { verifySignedEnd } from './signed-end.ts'
import { findLogEnd, findSignedEnd } from './end/store.ts'
import { countFindingLog, findLastSeq, findPosition, listFindingLog } from './store.ts'
import { countTenantLog, listTenantLog, pageOfTenantLog } from './tenant/store.ts'
import { verifyLog } from './verify.ts'

const numberKey = z.strictObject({ after: z.int().min(0) })
const writtenSchema = z.union([logEntrySchema.omit({ position: true }), logEntryStubSchema])

const batch = 500

export function trackerLogRoutes(
  app: App,
  deps: Pick<Deps, 'db' | 'now' | 'checkpoints' | 'sealer' | 'universe' | 'evidence'>,
): void {
  const { db, now, checkpoints, sealer } = deps
  contractList(app, listLogOfFinding, {
    page: async (input) => {
      const { query, context } = input
      const page = openPage(input, listLogOfFinding, numberKey)
      const after = page.after?.after ?? query.after_seq ?? 0
      const findingId = await getFindingId(db, input)
      await sealer.settle(context)
      const [rows, total] = await db.read(context, async (tx) =>
        Promise.all([
          listFindingLog(tx, findingId, { kinds: query.kind, after, limit: page.limit + 1 }),
          page.wantsTotal
            ? countFindingLog(tx, findingId, { kinds: query.kind, after: query.after_seq ?? 0 })
            : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, ({ seq }) => ({ after: seq }))
    },
    all: async function* (input) {
      const { kind: kinds, after_seq } = input.query
      const page = openPage(input, listLogOfFinding, numberKey)
      const findingId = await getFindingId(db, input)
      await sealer.settle(input.context)
      yield* streamList(db, input.context, {
        after: page.after?.after ?? after_seq ?? 0,
        size: batch,
        list: async (tx, after = 0, limit) => listFindingLog(tx, findingId, { kinds, after, limit }),
        keyOf: ({ seq }) => seq,
      })
    },
  })

  contractList(app, listLog, {
    page: async (input) => {
      const { query, context } = input
      const page = openPage(input, listLog, numberKey)
      const wanted = { kinds: query.kind, actor: query.actor }
      const since = requestedPosition(query)
      await sealer.settle(context)
      if (page.wantsTotal) {
        const total = await countTenantLog(db, context, { wanted, after: since })
        if (total === undefined) throw tooManyToCountProblem()
        page.total(total)
      }
      const after = page.after?.after ?? since
      const { entries, nextAfter } = await pageOfTenantLog(db, context, { wanted, after, limit: page.limit + 1 })
      return page.finish(
        entries,
        ({ position }) => ({ after: position }),
        nextAfter === undefined ? undefined : { after: nextAfter },
      )
    },
    all: async function* (input) {
      const { kind: kinds, actor } = input.query
      const since = requestedPosition(input.query)
      const page = openPage(input, listLog, numberKey)
      await sealer.settle(input.context)
      const rows = streamList(db, input.context, {
        after: page.after?.after ?? since,
        size: batch,
        list: async (tx, after = 0, limit) => listTenantLog(tx, { wanted: { kinds, actor }, after, limit }),
        keyOf: ({ position }) => position,
      })
      for await (const { entry } of rows) yield entry ?? heartbeat
    },
  })

  const writeEntry = async (input: ContractInput<typeof createLogEntry>): Promise<unknown> => {
    const { params, body, context, answer, keep } = input
    const address = parseResourceAddress(params.id)
    const occurredAt = body.occurred_at === undefined ? undefined : new Date(body.occurred_at)
    if (occurredAt !== undefined && (occurredAt > now() || occurredAt.getUTCFullYear() < 1900)) {
      throw invalidContent([
        { pointer: '/occurred_at', code: 'out_of_range', detail: 'must be in the past, and not before 1900' },
      ])
    }
    const assertKnown = await createReferenceCheck(deps, input, [body])
    return await db.write(context, async (tx) => {
      const finding = await lockFinding(tx, address)
      if (finding === undefined) throw problem('not_found')
      assertKnown(body)
      if (body.corrects_seq !== undefined && body.corrects_seq > (await findLastSeq(tx, finding.id))) {
        throw invalidContent([
          { pointer: '/corrects_seq', code: 'unknown', detail: 'must be the number of an entry of this finding' },
        ])
      }
      const [entry] = await createRecorder(context, checkpoints)(tx, [
        {
          findingId: finding.id,
          kind: body.kind,
          body: body.body,
          correctsSeq: body.corrects_seq,
          occurredAt,
          onBehalfOf: body.on_behalf_of,
          evidenceRefs: body.evidence_refs,
        },
      ])
      if (entry === undefined) throw new Error('no entry was written')
      answer.header('location', `/api/v1/findings/${entry.finding_id}/log?after_seq=${entry.seq - 1}&limit=1`)
      return await keep(tx, mayRead(context) ? entry : { finding_id: entry.finding_id, seq: entry.seq })
    })
  }
  completedRoute(app, createLogEntry, writeEntry, async (written, { context }) => {
    const entry = writtenSchema.parse(written)
    if (!('hash' in entry)) return entry
    await sealer.settle(context)
    const position = await db.read(context, async (tx) => findPosition(tx, entry.finding_id, entry.seq))
    if (position === undefined) {
      const detail =
        'The entry was stored without a position, because the log differs from its signed end. Contact the operator.'
      throw problem('log_contradicted', { detail })
    }
    return { position, ...entry }
  })

  contractRoute(app, verifyLogOfFinding, async (input) => {
    const { context } = input
    const findingId = await getFindingId(db, input)
    return await verifyLog(db, context, findingId)
  })

  contractRoute(app, getLogCheckpoint, async ({ query, context }) => {
    const { day } = query
    await sealer.settle(context)
    if (day !== undefined) {
      const { checkpoint: stored } = await sealedCheckpoint(db, context, {
        tenantId: context.tenantId,
        checkpoints,
        day,
      })
      if (stored === undefined) throw problem('not_found')
      return stored
    }
    const [{ position, root, recordedAt }, signed] = await db.read(context, async (tx) =>
      Promise.all([findLogEnd(tx), findSignedEnd(tx)]),
    )
    await verifySignedEnd(signed, { tenantId: context.tenantId, checkpoints })
    const signedAt = now().toISOString()
    const lastDay = (recordedAt?.toISOString() ?? signedAt).slice(0, 10)
    const jws = await checkpoints.sign({ tenant: context.tenantId, position, root, day: lastDay, signed_at: signedAt })
    return { position, root, day: lastDay, jws }
  })

  contractRoute(app, logCheckpointKeys, async ({ answer }) => {
    answer.header('cache-control', 'public, max-age=300')
    return { keys: checkpoints.publicKeys.map((key) => ({ ...key })) }
  })
}

function requestedPosition({ since, since_seq }: ContractInput<typeof listLog>['query']): number {
  if (since === undefined || since_seq === undefined || since === since_seq) return since ?? since_seq ?? 0
  throw problem('bad_request', {
    detail: '`since` and `since_seq` mean the same. Send only `since`.',
    errors: [{ parameter: 'since_seq', code: 'invalid', detail: 'must be omitted with `since`' }],
  })
}

function tooManyToCountProblem(): Error {
  const detail = `can search at most ${maxLogWalk} entries after \`since\` if \`kind\` or \`actor\` is given`
  return problem('bad_request', {
    detail: 'There are too many entries to count. Use a later `since`, or omit `kind` and `actor`.',
    errors: [{ parameter: 'count', code: 'too_big', detail }],
  })
}
