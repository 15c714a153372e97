import { reportLeakedKeys } from '@postern/contracts'
import { type App, contractRoute } from '@postern/service-kit'
import type { TenantContext } from '@postern/signed-context'
import type { Deps } from '../deps.ts'
import type { Reporter } from './store.ts'

/** Registers the report of leaked keys, whose values must not reach a log, an error or the database. */
export function reportLeakRoutes(app: App, { leaks }: Pick<Deps, 'leaks'>): void {
  contractRoute(app, reportLeakedKeys, async ({ body, context, answer }) => {
    const { id, receivedAt, values } = await leaks.report({
      found: body.keys.map((value) => ({ value })),
      reporter: reporterOf(context),
    })
    answer.header('cache-control', 'no-store')
    return { id, received_at: receivedAt.toISOString(), values }
  })
}

/** The gateway sends the address of a client without credentials as the label. */
function reporterOf({ kind, id, label }: TenantContext): Reporter {
  if (kind !== 'service') return { id, label, address: null }
  return { id: label, label, address: label }
}
