import type { CallOptions, Connection } from './connection.ts'
import type { ItemOf, QueryOf } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'

export interface AuditEvents {
  /**
   * Newest first. To copy the feed, ask for the order `oldest` and send the `position` of the last stored event as
   * `after`.
   */
  list(query?: QueryOf<'listAuditEvents'>, options?: CallOptions): Pages<ItemOf<'listAuditEvents'>>
}

export function openAuditEvents(connection: Connection): AuditEvents {
  return { list: (query, options = {}) => pagesOf(connection, 'listAuditEvents', {}, query, options) }
}
