import {
  type ScimUser,
  enterpriseUrn,
  maxScimCount,
  scimCreateUser,
  scimDeleteUser,
  scimGetUser,
  scimListUsers,
  scimPatchUser,
  scimReplaceUser,
  scimSearchUsers,
  scimUserSchema,
  userUrn,
} from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, isTooLarge, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type ListQuery, listOf, pageOf, project, queryOf } from './answer.ts'
import { readUser } from './content.ts'
import { type Condition, toCondition } from './filter.ts'
import type { UrlOfPath } from './locate.ts'
import { patchUser } from './patch-user.ts'
import { type StoredUser, findUser, listUsers, userFilters } from './store.ts'
import { etagOf, writeUser } from './write-user.ts'

type Parts = Pick<Deps, 'db' | 'universe' | 'queue' | 'locate' | 'countEndedUser'>

export function scimUserRoutes(app: App, deps: Parts): void {
  const { db, locate } = deps
  const present = (user: StoredUser): ScimUser => presentUser(user, locate)
  const presentNow = (user: StoredUser | undefined): ScimUser => {
    if (user === undefined) throw new Error('the user does not exist')
    return present(user)
  }
  const list = async (context: RequestInfo['context'], query: ListQuery) => {
    const page = pageOf(query, maxScimCount)
    const condition = toCondition(query.filter, userFilters, 1)
    const { total, users } = await listUsersThatFit(db, context, condition, page)
    return listOf(
      total,
      page.startIndex,
      users.map((user) => project(present(user), query)),
    )
  }

  contractRoute(app, scimListUsers, async ({ query, context }) => await list(context, query))
  contractRoute(app, scimSearchUsers, async ({ body, context }) => await list(context, queryOf(body)))

  contractRoute(app, scimGetUser, async ({ params, query, context, answer }) => {
    const user = await db.read(context, async (tx) => await findUser(tx, params.id))
    if (user === undefined) throw problem('not_found')
    answer.etag(etagOf(user))
    return project(present(user), query)
  })

  contractRoute(app, scimCreateUser, async (input) => {
    const { body, query, answer, keep } = input
    const user = readUser(body)
    return await writeUser(
      deps,
      input,
      undefined,
      () => user,
      async (tx, stored) => {
        const made = presentNow(stored)
        answer.header('location', locate(`/Users/${made.id}`))
        answer.etag(made.meta?.version ?? '')
        return await keep(tx, project(made, query))
      },
    )
  })

  contractRoute(app, scimReplaceUser, async (input) => {
    const { body, query, params, answer } = input
    const changed = await writeUser(
      deps,
      input,
      params.id,
      (before) => readUser(body, before?.active),
      async (_tx, stored) => presentNow(stored),
    )
    answer.etag(changed.meta?.version ?? '')
    return project(changed, query)
  })

  contractRoute(app, scimPatchUser, async (input) => {
    const { body, query, params, answer } = input
    const changed = await writeUser(
      deps,
      input,
      params.id,
      (before) => readUser(patchUser(before?.content ?? {}, body), before?.active, { mayBeUnassigned: true }),
      async (_tx, stored) => presentNow(stored),
    )
    answer.etag(changed.meta?.version ?? '')
    return project(changed, query)
  })

  contractRoute(app, scimDeleteUser, async (input) => {
    await writeUser(
      deps,
      input,
      input.params.id,
      () => undefined,
      async () => undefined,
    )
    return undefined
  })
}

/** Pages are cut short if users are long; `itemsPerPage` says so (RFC 7644, section 3.4.2.4). */
export async function listUsersThatFit(
  db: Deps['db'],
  context: RequestInfo['context'],
  condition: Condition,
  page: { readonly offset: number; readonly limit: number },
): ReturnType<typeof listUsers> {
  try {
    return await db.read(context, async (tx) => await listUsers(tx, condition, page))
  } catch (error) {
    if (!isTooLarge(error) || page.limit <= 1) throw error
    return await listUsersThatFit(db, context, condition, { ...page, limit: Math.max(1, Math.floor(page.limit / 8)) })
  }
}

export function presentUser(user: StoredUser, locate: UrlOfPath): ScimUser {
  const { id, content, createdAt, updatedAt } = user
  return scimUserSchema.parse({
    schemas: [userUrn, ...(content[enterpriseUrn] === undefined ? [] : [enterpriseUrn])],
    id,
    meta: {
      resourceType: 'User',
      created: createdAt.toISOString(),
      lastModified: updatedAt.toISOString(),
      location: locate(`/Users/${id}`),
      version: etagOf(user),
    },
    ...content,
  })
}
