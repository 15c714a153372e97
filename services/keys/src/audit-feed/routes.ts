import { listAuditEvents as listRoute } from '@postern/contracts'
import { type App, type RequestInfo, problem, storedList } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import {
  countAuditEvents,
  hasEventAt,
  hasUnplaced,
  listAuditEvents,
  assignEventPositions,
  parsePosition,
} from './store.ts'

export function feedRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  /** A response then contains every event that was committed before its request. */
  const assignAllPositions = async (context: RequestInfo['context']): Promise<void> => {
    if (!(await db.read(context, hasUnplaced))) return
    while (await db.write(context, assignEventPositions));
  }

  storedList(app, listRoute, {
    source: db,
    key: () => positionSchema,
    asked: async ({ query, context }) => {
      await assignAllPositions(context)
      const { after } = query
      if (after !== undefined && !(await db.read(context, async (tx) => await hasEventAt(tx, parsePosition(after))))) {
        throw problem('cursor_expired', {
          detail: 'The feed no longer has the event of `after`. Read it from its beginning with `order=oldest`.',
        })
      }
      return query
    },
    list: listAuditEvents,
    count: countAuditEvents,
    keyOf: ({ position }) => parsePosition(position).position,
    show: (event) => event,
  })
}

const positionSchema = z.string().regex(/^[1-9][0-9]{0,17}$/)
