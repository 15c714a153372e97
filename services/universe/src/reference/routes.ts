import {
  type UnknownReferences,
  internalPaths,
  maxReferencesBytes,
  unknownReferencesBodySchema,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { listUnknownEntities, listUnknownPeople, listUnknownTestProcedures } from './store.ts'

export function referenceRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.unknownReferences,
      body: unknownReferencesBodySchema,
      maxBodyBytes: maxReferencesBytes,
      signedBy: ['findings-universe'],
      callers: ['service'],
    },
    async ({ body, context }): Promise<UnknownReferences> => {
      const [entities, procedures, people] = await db.read(context, async (tx) =>
        Promise.all([
          listUnknownEntities(tx, body.entity_ids),
          listUnknownTestProcedures(tx, body.test_procedure_ids),
          body.person_ids === undefined ? undefined : listUnknownPeople(tx, body.person_ids),
        ]),
      )
      const unknown = { entity_ids: entities, test_procedure_ids: procedures }
      return people === undefined ? unknown : { ...unknown, person_ids: people }
    },
  )
}
