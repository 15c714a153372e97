import {
  type ScimUser,
  enterpriseUrn,
  maxScimCount,
  scimBase,
  scimCreateUser,
  scimDeleteUser,
  scimGetUser,
  scimListUsers,
  scimPatchUser,
  scimReplaceUser,
  scimUserSchema,
  userUrn,
} from '@postern/contracts'
import { type App, contractRoute, isTooLarge, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { listOf, pageOf, project } from './answer.ts'
import { readUser } from './content.ts'
import { toCondition } from './filter.ts'
import { patchUser } from './patch-user.ts'
import { type StoredUser, findUser, listUsers, userFilters } from './store.ts'
import { etagOf, writeUser } from './write-user.ts'

/** A page of fewer users where they are long: `itemsPerPage` says how many (RFC 7644, 3.4.2.4). */
async function usersThatFit<Page>(limit: number, list: (limit: number) => Promise<Page>): Promise<Page> {
  try {
    return await list(limit)
  } catch (error) {
    if (!isTooLarge(error) || limit <= 1) throw error
    return await usersThatFit(Math.max(1, Math.floor(limit / 8)), list)
  }
}

/** Users of an identity provider (RFC 7643 §4.1): people of the universe. */
export function scimUserRoutes(app: App, deps: Pick<Deps, 'db' | 'universe'>): void {
  const { db } = deps

  contractRoute(app, scimListUsers, async ({ query, context }) => {
    const page = pageOf(query, maxScimCount)
    const condition = toCondition(query.filter, userFilters, 1)
    const { total, users } = await usersThatFit(page.limit, async (limit) =>
      db.read(context, async (tx) => await listUsers(tx, condition, { ...page, limit })),
    )
    return listOf(
      total,
      page.startIndex,
      users.map((user) => project(present(user), query)),
    )
  })

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
        answer.header('location', `${scimBase}/Users/${made.id}`)
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
      (before) => readUser(body, isActive(before)),
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
      (before) => readUser(patchUser(before?.content ?? {}, body), isActive(before)),
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

function isActive(before: StoredUser | undefined): boolean {
  return before === undefined || readUser(before.content).facts.active
}

function presentNow(user: StoredUser | undefined): ScimUser {
  if (user === undefined) throw new Error('the user is not there')
  return present(user)
}

function present(user: StoredUser): ScimUser {
  const { id, content, createdAt, updatedAt } = user
  return scimUserSchema.parse({
    schemas: [userUrn, ...(content[enterpriseUrn] === undefined ? [] : [enterpriseUrn])],
    id,
    meta: {
      resourceType: 'User',
      created: createdAt.toISOString(),
      lastModified: updatedAt.toISOString(),
      location: `${scimBase}/Users/${id}`,
      version: etagOf(user),
    },
    ...content,
  })
}
