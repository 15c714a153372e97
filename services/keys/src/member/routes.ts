import { listMembers as listMembersRoute } from '@postern/contracts'
import { type App, storedList } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { countMembers, listMembers } from './store.ts'

const position = z.string().min(1).max(255)

export function memberRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  storedList(app, listMembersRoute, {
    source: db,
    key: () => position,
    asked: () => undefined,
    list: async (tx, _, place) => await listMembers(tx, place),
    count: countMembers,
    keyOf: ({ id }) => id,
    show: (member) => member,
  })
}
