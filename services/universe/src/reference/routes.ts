import {
  type UnknownReferences,
  internalPaths,
  maxReferencesBytes,
  unknownReferencesBodySchema,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { listUnknownEntities, listUnknownTestProcedures } from './store.ts'

/** What the findings service asks before it writes down what a finding is about. */
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
      const [entities, procedures] = await db.read(context, async (tx) =>
        Promise.all([listUnknownEntities(tx, body.entity_ids), listUnknownTestProcedures(tx, body.test_procedure_ids)]),
      )
      return { entity_ids: entities, test_procedure_ids: procedures }
    },
  )
}
