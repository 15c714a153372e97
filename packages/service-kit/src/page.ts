import { createHash } from 'node:crypto'
import { type Route, isSyncedList, nextUpdatedSinceHeader, updatedSince } from '@postern/contracts'
import type { TenantContext } from '@postern/signed-context'
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { AnswerControl } from './request-info.ts'
import { type ProblemError, problem } from './problem.ts'

export interface Page<Key> {
  /** Read one more row to know whether there is a next page. */
  readonly limit: number
  readonly after: Key | undefined
  readonly wantsTotal: boolean
  /** Whether `nextUpdatedSince` is to be called, with the end of the feed no later than the rows are read. */
  readonly wantsMark: boolean
  /** `onward`: the start of the next page if these rows are fewer. */
  finish<Row>(rows: readonly Row[], keyOf: (row: Row) => Key, onward?: Key): Row[]
  total(count: number): void
  /** Every page of the load sends the value of the first one. */
  nextUpdatedSince(mark: string): void
}

export interface PageInput {
  readonly query: {
    readonly limit: number
    readonly cursor?: string | undefined
    readonly count?: 'true' | 'false' | undefined
  }
  readonly context: TenantContext
  readonly answer: AnswerControl
  readonly raw: FastifyRequest
}

/** A cursor is bound to tenant, route, filters and sort; elsewhere it gets 400. */
export function openPage<Key>(input: PageInput, route: Route, key: z.ZodType<Key>): Page<Key> {
  const { query, context, answer, raw } = input
  const binding = bindingOf(context.tenantId, route, raw)
  const cursor = query.cursor === undefined ? undefined : readCursor(query.cursor, binding, key)
  let mark: string | undefined
  const nextUpdatedSince = (value: string): void => {
    mark = value
    answer.header(nextUpdatedSinceHeader, value)
  }
  if (cursor?.mark !== undefined) nextUpdatedSince(cursor.mark)
  return {
    limit: query.limit,
    after: cursor?.key,
    wantsTotal: query.count === 'true',
    wantsMark: cursor === undefined && isSyncedList(route),
    nextUpdatedSince,
    finish: (rows, keyOf, onward) => {
      const page = rows.slice(0, query.limit)
      const last = page.at(-1)
      const next = rows.length > query.limit && last !== undefined ? keyOf(last) : onward
      if (next !== undefined) {
        const parts = mark === undefined ? [binding, next] : [binding, next, mark]
        const nextCursor = Buffer.from(JSON.stringify(parts)).toString('base64url')
        answer.header('link', `<${nextTarget(raw, nextCursor)}>; rel="next"`)
      }
      return page
    },
    total: (count) => answer.header('x-total-count', String(count)),
  }
}

function readCursor<Key>(cursor: string, binding: string, key: z.ZodType<Key>): { key: Key; mark: string | undefined } {
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'), assertStorable)
  } catch {
    throw refuse()
  }
  if (!Array.isArray(value) || value.length < 2 || value.length > 3 || value[0] !== binding) throw refuse()
  const parsed = key.safeParse(value[1])
  const mark = updatedSince.safeParse(value[2])
  if (!parsed.success || !mark.success) throw refuse()
  return { key: parsed.data, mark: mark.data === undefined ? undefined : String(value[2]) }
}

/** PostgreSQL cannot store NUL or lone surrogates. */
function assertStorable(_name: string, value: unknown): unknown {
  if (typeof value === 'string' && (value.includes('\u0000') || !value.isWellFormed())) throw refuse()
  return value
}

function searchOf(raw: FastifyRequest): URLSearchParams {
  const target = raw.raw.url ?? ''
  const at = target.indexOf('?')
  return new URLSearchParams(at === -1 ? '' : target.slice(at + 1))
}

function bindingOf(tenantId: string, route: Route, raw: FastifyRequest): string {
  const search = searchOf(raw)
  for (const name of ['cursor', 'limit', 'count', 'envelope', 'format']) search.delete(name)
  search.sort()
  const path = (raw.raw.url ?? '').split('?', 1)[0]
  return createHash('sha256').update(`${tenantId}\n${route.id}\n${path}\n${search}`).digest('base64url').slice(0, 22)
}

function nextTarget(raw: FastifyRequest, cursor: string): string {
  const search = searchOf(raw)
  search.delete('count')
  search.set('cursor', cursor)
  return `${(raw.raw.url ?? '').split('?', 1)[0]}?${search}`
}

function refuse(): ProblemError {
  return problem('bad_request', {
    detail: 'The cursor does not belong to this list. Begin again without a cursor.',
    errors: [{ parameter: 'cursor', code: 'invalid', detail: 'is not a cursor of this list, filter and sort' }],
  })
}
