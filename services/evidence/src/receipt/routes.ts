import { receiptKeys } from '@postern/contracts'
import { type App, contractRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'

export function receiptRoutes(app: App, { receipts }: Pick<Deps, 'receipts'>): void {
  contractRoute(app, receiptKeys, async ({ answer }) => {
    answer.header('cache-control', 'public, max-age=300')
    return { keys: receipts.publicKeys.map((key) => ({ ...key })) }
  })
}
