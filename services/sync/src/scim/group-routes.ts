import {
  type ScimGroup,
  groupUrn,
  maxScimCount,
  maxScimMembers,
  scimCreateGroup,
  scimDeleteGroup,
  scimGetGroup,
  scimListGroups,
  scimPatchGroup,
  scimReplaceGroup,
  scimSearchGroups,
} from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, matchesEtag, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { type ListQuery, type Projection, isLeftOut, listOf, pageOf, project, queryOf } from './answer.ts'
import { type Condition, toCondition } from './filter.ts'
import {
  type Member,
  type StoredGroup,
  addMembers,
  countMembers,
  deleteGroup,
  findGroup,
  findUnknownMember,
  groupFilters,
  insertGroup,
  listGroups,
  listMembers,
  lockGroup,
  removeMembers,
  touchGroupsOf,
  updateGroup,
  limitByMembers,
} from './group-store.ts'
import type { UrlOfPath } from './locate.ts'
import { type GroupStep, stepsOf } from './patch-group.ts'
import { sqlError } from '../sql/store.ts'

/** A page of groups with more members is cut short, and `itemsPerPage` says so (RFC 7644, section 3.4.2.4). */
const maxMembersListed = 50_000

/** Groups (RFC 7643, section 4.2) are not part of the universe. */
export function scimGroupRoutes(app: App, { db, locate }: Pick<Deps, 'db' | 'locate'>): void {
  const list = async (context: RequestInfo['context'], query: ListQuery) => {
    const page = pageOf(query, maxScimCount)
    const condition = toCondition(query.filter, groupFilters, 1)
    return await db.write(context, async (tx) => {
      const { total, groups } = await listWholeGroups(tx, condition, page, query, locate)
      return listOf(total, page.startIndex, groups)
    })
  }

  contractRoute(app, scimListGroups, async ({ query, context }) => await list(context, query))
  contractRoute(app, scimSearchGroups, async ({ body, context }) => await list(context, queryOf(body)))

  contractRoute(app, scimGetGroup, async ({ params, query, context, answer }) => {
    const wanted = isLeftOut('members', query) ? [] : [params.id]
    const [group, members] = await db.write(
      context,
      async (tx) => await Promise.all([findGroup(tx, params.id), listMembers(tx, wanted)]),
    )
    if (group === undefined) throw problem('not_found')
    answer.etag(etagOf(group))
    return project(present(group, members.get(group.id) ?? [], locate), query)
  })

  contractRoute(app, scimCreateGroup, async ({ body, query, context, answer, keep }) => {
    const made = db.write(context, async (tx) => {
      const id = crypto.randomUUID()
      await insertGroup(tx, id, { displayName: body.displayName, externalId: body.externalId ?? undefined })
      await applyMemberStep(tx, id, { kind: 'add', ids: (body.members ?? []).map(({ value }) => value) })
      const group = await read(tx, id, query, locate)
      answer.header('location', locate(`/Groups/${id}`))
      answer.etag(group.meta?.version ?? '')
      return await keep(tx, project(group, query))
    })
    return await made.catch(refuseTaken)
  })

  contractRoute(app, scimReplaceGroup, async (input) => {
    const { body } = input
    const steps: GroupStep[] = [
      { kind: 'display-name', value: body.displayName },
      { kind: 'external-id', value: body.externalId ?? undefined },
      { kind: 'replace', ids: (body.members ?? []).map(({ value }) => value) },
    ]
    return await change(db, locate, input, steps)
  })

  contractRoute(app, scimPatchGroup, async (input) => await change(db, locate, input, stepsOf(input.body)))

  contractRoute(app, scimDeleteGroup, async (input) => {
    await db.write(input.context, async (tx) => {
      await lockUnlessChanged(tx, input)
      await deleteGroup(tx, input.params.id)
    })
    return undefined
  })
}

export async function listWholeGroups(
  tx: Tx,
  condition: Condition,
  page: { readonly offset: number; readonly limit: number },
  query: Projection,
  locate: UrlOfPath,
): Promise<{ readonly total: number; readonly groups: readonly ScimGroup[] }> {
  const { total, groups: found } = await listGroups(tx, condition, page)
  const omitsMembers = isLeftOut('members', query)
  const groups = omitsMembers ? found : await limitByMembers(tx, found, maxMembersListed)
  const members = await listMembers(tx, omitsMembers ? [] : groups.map(({ id }) => id))
  return { total, groups: groups.map((group) => project(present(group, members.get(group.id) ?? [], locate), query)) }
}

type Input = Pick<RequestInfo, 'context' | 'raw' | 'answer'> & {
  readonly params: { readonly id: string }
  readonly query: Projection
}

async function lockUnlessChanged(tx: Tx, { params, raw }: Pick<Input, 'params' | 'raw'>): Promise<StoredGroup> {
  const before = await lockGroup(tx, params.id)
  if (before === undefined) throw problem('not_found')
  const ifMatch = raw.headers['if-match']
  if (ifMatch !== undefined && !matchesEtag(ifMatch, etagOf(before))) {
    throw problem('precondition_failed', { detail: 'The group has changed. Read it again and repeat your change.' })
  }
  return before
}

async function change(
  db: Deps['db'],
  locate: UrlOfPath,
  input: Input,
  steps: readonly GroupStep[],
): Promise<ScimGroup> {
  const written = db.write(input.context, async (tx) => {
    const before = await lockUnlessChanged(tx, input)
    let names = { displayName: before.displayName, externalId: before.externalId ?? undefined }
    let moved = 0
    for (const step of steps) {
      if (step.kind === 'display-name') names = { ...names, displayName: step.value }
      else if (step.kind === 'external-id') names = { ...names, externalId: step.value }
      else moved += await applyMemberStep(tx, before.id, step)
    }
    const isRenamed = names.displayName !== before.displayName || names.externalId !== (before.externalId ?? undefined)
    if (moved > 0 || isRenamed) await updateGroup(tx, before.id, names)
    if (names.displayName !== before.displayName) await touchGroupsOf(tx, before.id)
    return await read(tx, before.id, input.query, locate)
  })
  const group = await written.catch(refuseTaken)
  input.answer.etag(group.meta?.version ?? '')
  return project(group, input.query)
}

async function applyMemberStep(
  tx: Tx,
  groupId: string,
  step: Extract<GroupStep, { kind: 'add' | 'remove' | 'replace' | 'clear' }>,
): Promise<number> {
  if (step.kind === 'clear') return await removeMembers(tx, groupId, 'all')
  if (step.kind === 'remove') return await removeMembers(tx, groupId, step.ids)
  const unknown = await findUnknownMember(tx, step.ids)
  if (unknown !== undefined) {
    const detail = `${unknown} is not the id of a user or group`
    throw problem('bad_request', {
      detail: 'Nothing was changed.',
      errors: [{ pointer: '/members', code: 'invalidValue', detail }],
    })
  }
  if (step.ids.includes(groupId)) {
    throw problem('bad_request', {
      detail: 'Nothing was changed.',
      errors: [{ pointer: '/members', code: 'invalidValue', detail: 'a group cannot be a member of itself' }],
    })
  }
  const left = step.kind === 'replace' ? await removeMembers(tx, groupId, 'all') : 0
  const added = await addMembers(tx, groupId, step.ids)
  if ((await countMembers(tx, groupId)) > maxScimMembers) {
    throw problem('bad_request', {
      detail: 'Nothing was changed.',
      errors: [{ pointer: '/members', code: 'tooMany', detail: `a group has at most ${maxScimMembers} members` }],
    })
  }
  return left + added
}

async function read(tx: Tx, id: string, query: Projection, locate: UrlOfPath): Promise<ScimGroup> {
  const group = await findGroup(tx, id)
  if (group === undefined) throw new Error('the group does not exist')
  const members = await listMembers(tx, isLeftOut('members', query) ? [] : [id])
  return present(group, members.get(id) ?? [], locate)
}

function present(group: StoredGroup, members: readonly Member[], locate: UrlOfPath): ScimGroup {
  const { id, displayName, externalId, createdAt, updatedAt } = group
  return {
    schemas: [groupUrn],
    id,
    ...(externalId === null ? {} : { externalId }),
    meta: {
      resourceType: 'Group',
      created: createdAt.toISOString(),
      lastModified: updatedAt.toISOString(),
      location: locate(`/Groups/${id}`),
      version: etagOf(group),
    },
    displayName,
    members: members.map((member) => ({
      value: member.id,
      ...(member.display === null ? {} : { display: member.display }),
      type: member.type,
      $ref: locate(`/${member.type}s/${member.id}`),
    })),
  }
}

function etagOf({ version }: Pick<StoredGroup, 'version'>): string {
  return `"${version}"`
}

function refuseTaken(error: unknown): never {
  if (sqlError(error).kind !== 'unique') throw error
  throw problem('conflict', {
    detail: 'Nothing was changed.',
    errors: [{ pointer: '/displayName', code: 'uniqueness', detail: 'is the displayName of another group' }],
  })
}
