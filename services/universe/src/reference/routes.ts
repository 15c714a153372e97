import { parseResourceAddress } from '@postern/contracts'
import {
  type ResolvedAddresses,
  type UnknownReferences,
  internalPaths,
  maxReferencesBytes,
  resolveReferencesBodySchema,
  unknownReferencesBodySchema,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import {
  findEntityIds,
  findTestProcedureIds,
  listUnknownEntities,
  listUnknownPeople,
  listUnknownTestProcedures,
} from './store.ts'

export function referenceRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const access = {
    method: 'POST',
    maxBodyBytes: maxReferencesBytes,
    signedBy: ['findings-universe'],
    callers: ['service'],
  } as const

  internalRoute(
    app,
    { ...access, path: internalPaths.resolveReferences, body: resolveReferencesBodySchema },
    async ({ body, context }): Promise<ResolvedAddresses> => {
      const [entities, procedures] = await db.read(context, async (tx) =>
        Promise.all([
          findEntityIds(tx, body.entities.map(parseResourceAddress)),
          findTestProcedureIds(tx, body.test_procedures.map(parseResourceAddress)),
        ]),
      )
      return { entities, test_procedures: procedures }
    },
  )

  internalRoute(
    app,
    { ...access, path: internalPaths.unknownReferences, body: unknownReferencesBodySchema },
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
