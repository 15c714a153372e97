import {
  type UnknownEvidence,
  internalPaths,
  maxReferencesBytes,
  unknownEvidenceBodySchema,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { listUnknownPlaces } from './store.ts'

export function referenceRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.unknownEvidence,
      body: unknownEvidenceBodySchema,
      maxBodyBytes: maxReferencesBytes,
      signedBy: ['findings-evidence'],
      callers: ['service'],
    },
    async ({ body, context }): Promise<UnknownEvidence> => ({
      places: await db.read(context, async (tx) => listUnknownPlaces(tx, body.evidence_refs)),
    }),
  )
}
