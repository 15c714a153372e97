import { parseKey } from '@postern/api-key'
import { findApiKey } from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { toApiKey } from '../api-key/answer.ts'
import { findKeyByHash } from '../api-key/store.ts'
import type { Deps } from '../deps.ts'

/** Registers the search for a key by its value, which must not reach a log, an error or the database. */
export function findKeyRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, findApiKey, async ({ body, context }) => {
    const parsed = parseKey(body.key)
    if (parsed === undefined) {
      throw problem('invalid_content', {
        errors: [
          {
            pointer: '/key',
            code: 'invalid',
            detail: 'has a wrong checksum. Check that the key is complete and unaltered',
          },
        ],
      })
    }
    const key = await db.read(context, async (tx) => await findKeyByHash(tx, parsed.hash))
    if (key === undefined) throw problem('not_found', { detail: 'No key of this tenant has this value.' })
    return toApiKey(key)
  })
}
