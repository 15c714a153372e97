import {
  type CreatedBy,
  createFinding,
  getFinding,
  listFindings as listRoute,
  parseResourceAddress,
} from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, openPage, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { asRead, asStub, creationFaults, entityTag, faultOfConstraint, targetDaysBySeverity } from './rules.ts'
import {
  type FindingFilter,
  countFindings,
  findFinding,
  findingKeySchema,
  insertFinding,
  isKeyOfSort,
  keyOfFinding,
  listFindings,
  refusalOf,
} from './store.ts'

/** Listing, reading and documenting findings. */
export function findingRoutes(app: App, { db, now }: Pick<Deps, 'db' | 'now'>): void {
  const today = (): string => now().toISOString().slice(0, 10)

  contractRoute(app, listRoute, async (input) => {
    const { query, context } = input
    const { sort } = query
    const key = findingKeySchema.refine((given) => isKeyOfSort(given, sort))
    const page = openPage(input, listRoute, key)
    const filter: FindingFilter = {
      status: query.status,
      severity: query.severity,
      externalId: query.external_id,
      updatedSince: query.updated_since === undefined ? undefined : new Date(query.updated_since),
    }
    const [rows, total] = await db.read(context, async (tx) =>
      Promise.all([
        listFindings(tx, { filter, sort, after: page.after, limit: page.limit + 1 }),
        page.wantsTotal ? countFindings(tx, filter) : undefined,
      ]),
    )
    if (total !== undefined) page.total(total)
    const day = today()
    return page.finish(rows, (row) => keyOfFinding(row, sort)).map((row) => asRead(row, day))
  })

  contractRoute(app, getFinding, async ({ params, context, answer }) => {
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findFinding(tx, address))
    if (stored === undefined) throw problem('not_found')
    const day = today()
    answer.etag(entityTag(stored.version, day))
    return asRead(stored, day)
  })

  contractRoute(app, createFinding, async ({ body, context, answer, keep }) => {
    const faults = creationFaults(body)
    if (faults.length > 0)
      throw problem('invalid_content', { detail: 'See `errors` for what to mend.', errors: faults })
    const createdBy = actorOf(context)
    return await db
      .write(context, async (tx) => {
        const targetDays = targetDaysBySeverity[body.severity]
        const stored = await insertFinding(tx, { fields: body, createdBy, targetDays })
        const day = today()
        answer.header('location', `/api/v1/findings/${stored.id}`)
        answer.etag(entityTag(stored.version, day))
        return await keep(tx, context.scopes.includes('read:findings') ? asRead(stored, day) : asStub(stored))
      })
      .catch((error: unknown) => {
        throw problemOf(error)
      })
  })
}

function actorOf({ kind, id, label }: RequestInfo['context']): CreatedBy {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}

/** What a failed insert means to the caller; anything that is not the caller's to mend stays as it is. */
function problemOf(error: unknown): unknown {
  const refusal = refusalOf(error)
  if (refusal === undefined) return error
  if (refusal.kind === 'external-id-taken') {
    return problem('conflict', {
      detail: 'Another finding has this external_id. Each finding needs its own.',
      errors: [{ pointer: '/external_id', code: 'taken', detail: 'is the external_id of another finding' }],
    })
  }
  const fault = faultOfConstraint(refusal.constraint)
  if (fault === undefined) return error
  return problem('invalid_content', { detail: 'See `errors` for what to mend.', errors: [fault] })
}
