import { hash } from 'node:crypto'
import {
  type CreateFinding,
  type Finding,
  changeFindingStatus,
  createFinding,
  findingTransitions,
  getFinding,
  listFindings as listRoute,
  mostExpanded,
  parseResourceAddress,
  summarizeFindings as summarizeRoute,
  updateFinding as updateRoute,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  JsonText,
  type RequestInfo,
  contractList,
  contractRoute,
  openPage,
  patchRoute,
  problem,
  streamList,
} from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { findFeedMark, findUpdatedSince } from '../updated-since/store.ts'
import type { Deps } from '../deps.ts'
import { prepareWrite } from '../prepare-write.ts'
import { actorOf, assertVersion, entityTag, mayRead, requireIfMatch } from '../request.ts'
import { describeMoves } from '../transitions.ts'
import { entitiesOfFilter, ownersOfFilter } from '../universe/filter.ts'
import { changeFinding, documentFinding, moveFinding, problemOfFinding } from './change.ts'
import { computedMembers, currentFinding } from './current.ts'
import { expand } from './expand.ts'
import { possibleRepeats, suggestedSeverity } from './repeat/rules.ts'
import { listRepeatCandidates } from './repeat/store.ts'
import { type StoredFinding, asRead, asStub } from './rules.ts'
import { type FindingFilter, countFindings, findingList, listFindingTexts, summarizeFindings } from './list/store.ts'
import { findFinding, findProgress, lockFinding } from './store.ts'
import { mergeOwners } from './merge-owners.ts'
import { entityIdsOf } from '../reference/resolve.ts'
import { findingMoves } from './transitions.ts'

export function findingRoutes(
  app: App,
  deps: Pick<Deps, 'db' | 'now' | 'checkpoints' | 'sealer' | 'universe' | 'evidence'>,
): void {
  const { db, now, sealer, universe } = deps
  const today = (): string => now().toISOString().slice(0, 10)

  const showWritten = (input: Pick<ContractInput<typeof updateRoute>, 'context' | 'answer'>, stored: StoredFinding) => {
    const day = today()
    input.answer.etag(entityTag(stored.version, day))
    return mayRead(input.context) ? asRead(stored, day) : asStub(stored)
  }

  const resolveFilter = async (
    input: { readonly query: Query } & Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
  ) => ({
    ...filterOf(input.query, today()),
    updatedSince: await findUpdatedSince(db, input),
    owner: await ownersOfFilter(input.query.owner, input, universe),
    namedEntityIds: await entityIdsOf(input.query.entity_id, input, universe),
    entityIds: await entitiesOfFilter(input.query, input, universe),
  })

  const listOf = async (input: ContractInput<typeof listRoute>) => {
    const { sort } = input.query
    const keyOf = (text: string) => findingList.keyOf(JSON.parse(text), sort)
    const page = openPage(input, listRoute, findingList.keySchema(sort))
    return { sort, page, filter: await resolveFilter(input), keyOf }
  }

  contractList<typeof listRoute, Finding>(app, listRoute, {
    page: async (input) => {
      const { sort, page, filter, keyOf } = await listOf(input)
      const day = today()
      const [rows, total, mark] = await db.read(input.context, async (tx) =>
        Promise.all([
          listFindingTexts(tx, filter, { sort, after: page.after, limit: page.limit + 1 }, day),
          page.wantsTotal ? countFindings(tx, filter) : undefined,
          page.wantsMark ? findFeedMark(tx) : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      if (mark !== undefined) page.nextUpdatedSince(mark)
      const texts = page.finish(rows, keyOf)
      const { expand: wanted = [] } = input.query
      if (wanted.length === 0) return JsonText.list(texts)
      const findings = texts.map((text): Finding => JSON.parse(text))
      const parts = await expand({ db, universe, sealer }, input, findings, {
        wanted,
        today: day,
        limit: mostExpanded.listed,
      })
      return findings.map((finding) => ({ ...finding, ...parts.get(finding.id) }))
    },
    all: async function* (input) {
      const { sort, page, filter, keyOf } = await listOf(input)
      const day = today()
      if (page.wantsMark) page.nextUpdatedSince(await db.read(input.context, findFeedMark))
      yield* streamList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) =>
          (await listFindingTexts(tx, filter, { sort, after, limit }, day)).map((text) => new JsonText(text)),
        keyOf: ({ text }) => keyOf(text),
      })
    },
  })

  contractRoute(app, summarizeRoute, async (input) => {
    const filter = await resolveFilter(input)
    const { query, context } = input
    const groups = await db.read(context, async (tx) => summarizeFindings(tx, filter, query.group_by, today()))
    return query.group_by === 'owner' ? await mergeOwners(groups, input, universe) : groups
  })

  contractRoute(app, getFinding, async (input) => {
    const { params, query, context, answer } = input
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findFinding(tx, address))
    if (stored === undefined) throw problem('not_found')
    const day = today()
    const { expand: wanted = [] } = query
    if (wanted.length === 0) {
      answer.etag(entityTag(stored.version, day))
      return asRead(stored, day)
    }
    const parts = await expand({ db, universe, sealer }, input, [stored], {
      wanted,
      today: day,
      limit: mostExpanded.one,
    })
    const expanded = parts.get(stored.id) ?? {}
    // Expanded parts can change without the finding.
    answer.etag(entityTag(stored.version, day, hash('sha256', JSON.stringify(expanded), 'base64url').slice(0, 22)))
    return { ...asRead(stored, day), ...expanded }
  })

  contractRoute(app, createFinding, async (input) => {
    const { context, answer } = input
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    assertKnown(body)
    return await db
      .write(context, async (tx) => {
        // Before the insert, so that other creations do not wait.
        const suggestions = mayRead(context) ? await suggestionsFor(tx, body) : undefined
        const { finding, drafts } = await documentFinding(tx, body, actorOf(context))
        await record(tx, drafts)
        answer.header('location', `/api/v1/findings/${finding.id}`)
        const day = today()
        answer.etag(entityTag(finding.version, day))
        const made = suggestions === undefined ? asStub(finding) : { ...asRead(finding, day), ...suggestions }
        return await input.keep(tx, made)
      })
      .catch(throwProblem)
  })

  const currentResource = {
    computed: computedMembers,
    read: async (input: Pick<ContractInput<typeof updateRoute>, 'params' | 'context' | 'raw' | 'answer'>) => {
      const stored = await db.read(input.context, async (tx) => findFinding(tx, parseResourceAddress(input.params.id)))
      return stored && currentFinding(input, stored, today())
    },
  }
  patchRoute(app, updateRoute, currentResource, async (input) => {
    const { params, context } = input
    requireIfMatch(input)
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    const address = parseResourceAddress(params.id)
    const stored = await db
      .write(context, async (tx) => {
        const before = await lockFinding(tx, address)
        if (before === undefined) throw problem('not_found')
        assertVersion(input, before.version)
        assertKnown(body, before)
        const { finding, drafts } = await changeFinding(tx, before, body)
        await record(tx, drafts)
        return finding
      })
      .catch(throwProblem)
    return showWritten(input, stored)
  })

  contractRoute(app, changeFindingStatus, async (input) => {
    const { params, context } = input
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    const address = parseResourceAddress(params.id)
    return await db
      .write(context, async (tx) => {
        const before = await lockFinding(tx, address)
        if (before === undefined) throw problem('not_found')
        assertVersion(input, before.version)
        assertKnown(body)
        const { finding, drafts } = await moveFinding(tx, before, body, today())
        await record(tx, drafts)
        return await input.keep(tx, showWritten(input, finding))
      })
      .catch(throwProblem)
  })

  contractRoute(app, findingTransitions, async ({ params, context }) => {
    const address = parseResourceAddress(params.id)
    const finding = await db.read(context, async (tx) => findFinding(tx, address))
    if (finding === undefined) throw problem('not_found')
    const progress = await db.read(context, async (tx) => findProgress(tx, finding.id))
    return describeMoves(findingMoves, finding.status, { finding, ...progress, today: today(), request: {} })
  })
}

const exportBatch = 250

type Query = Omit<ContractInput<typeof summarizeRoute>['query'], 'group_by'>

export function filterOf(query: Query, today: string): FindingFilter {
  return {
    status: query.status,
    severity: query.severity,
    reference: query.ref,
    type: query.type,
    source: query.source,
    overdue: query.overdue === undefined ? undefined : { is: query.overdue === 'true', on: today },
    repeat: query.repeat === undefined ? undefined : query.repeat === 'true',
    identifiedFrom: query.identified_from,
    identifiedTo: query.identified_to,
    targetAfter: query.target_after,
    targetBefore: query.target_before,
    externalId: query.external_id,
    text: query.q,
  }
}

async function suggestionsFor(tx: Tx, body: CreateFinding) {
  const { criteria = '', entity_ids: entityIds, repeat_of_id: repeated, severity } = body
  if (repeated !== undefined) {
    const before = await findFinding(tx, parseResourceAddress(repeated))
    return { possible_repeats: [], suggested_severity: suggestedSeverity(severity, before?.severity) }
  }
  const candidates = entityIds.length === 0 || criteria === '' ? [] : await listRepeatCandidates(tx, entityIds)
  return { possible_repeats: possibleRepeats(criteria, candidates), suggested_severity: null }
}

function throwProblem(error: unknown): never {
  throw problemOfFinding(error)
}
