import { listApiKeyEvents, uuidSchema } from '@postern/contracts'
import { type App, storedList } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { countEvents, hasKey, listEvents } from './store.ts'

export function auditRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  storedList(app, listApiKeyEvents, {
    source: db,
    key: () => uuidSchema,
    asked: ({ params }) => params.id,
    isThere: hasKey,
    list: listEvents,
    count: countEvents,
    keyOf: ({ id }) => id,
    show: (event) => event,
  })
}
