import { getKeyHealth } from '@postern/contracts'
import { type App, contractRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { countReasons } from './store.ts'

export function healthRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, getKeyHealth, async ({ context }) => await db.read(context, countReasons))
}
