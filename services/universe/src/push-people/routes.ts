import type { PushedPerson } from '@postern/contracts'
import {
  type ApplyAnswer,
  type ApplyEntitiesAnswer,
  applyPeopleBodySchema,
  internalPaths,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { refuse } from '../push/rejection.ts'
import { maxBodyBytes } from '../push/routes.ts'
import { faultsOfPeople, takenEmailFault } from './rules.ts'
import { type Tx, applyPeople, listTakenEmails, lockPeople } from './store.ts'

export function pushPeopleRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.pushPeople,
      body: applyPeopleBodySchema,
      maxBodyBytes,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body, context, requestId, log }): Promise<ApplyAnswer> => {
      const { people, run_id } = body
      refuse(faultsOfPeople(people), 'people')
      const outcome = await db.write(context, async (tx) => applyPushedPeople(tx, people))
      log.info({ event: 'people_applied', request_id: requestId, run_id, ...outcome })
      return outcome
    },
  )
}

export async function applyPushedPeople(tx: Tx, people: readonly PushedPerson[]): Promise<ApplyEntitiesAnswer> {
  if (people.length === 0) return { created: 0, updated: 0, unchanged: 0 }
  const [, taken] = await Promise.all([lockPeople(tx), listTakenEmails(tx, people)])
  refuse(taken.map(takenEmailFault), 'people')
  return await applyPeople(tx, people)
}
