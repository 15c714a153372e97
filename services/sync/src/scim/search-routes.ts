import { type ScimGroup, type ScimUser, maxScimCount, scimSearch } from '@postern/contracts'
import { type App, contractRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { listOf, pageOf, project, queryOf } from './answer.ts'
import { toCondition } from './filter.ts'
import { listWholeGroups } from './group-routes.ts'
import { groupFilters } from './group-store.ts'
import { userFilters } from './store.ts'
import { listUsersThatFit, presentUser } from './user-routes.ts'

/** RFC 7644, section 3.4.3. */
export function scimSearchRoutes(app: App, { db, locate }: Pick<Deps, 'db' | 'locate'>): void {
  contractRoute(app, scimSearch, async ({ body, context }) => {
    const query = queryOf(body)
    const page = pageOf(query, maxScimCount)
    const ofUsers = toCondition(query.filter, userFilters, 1, groupFilters)
    const ofGroups = toCondition(query.filter, groupFilters, 1, userFilters)
    const { total: userTotal, users } = await listUsersThatFit(db, context, ofUsers, page)
    // Groups follow the last user, so a page that lacks users has no groups.
    const hasGroups = page.offset + users.length >= userTotal
    const rest = {
      offset: Math.max(0, page.offset - userTotal),
      limit: hasGroups ? page.limit - users.length : 0,
    }
    const { total: groupTotal, groups } = await db.write(
      context,
      async (tx) => await listWholeGroups(tx, ofGroups, rest, query, locate),
    )
    const found: (ScimUser | ScimGroup)[] = users.map((user) => project(presentUser(user, locate), query))
    return listOf(userTotal + groupTotal, page.startIndex, [...found, ...groups])
  })
}
