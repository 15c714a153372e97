import type { CallOptions, Connection } from './connection.ts'
import type { AnswerOf, BodyOf, ItemOf, QueryOf } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'

type Result = AnswerOf<'pushEntities'>

/** Needs `admin:sync`. A push takes in all rows or none; a row is matched by its source's own key. */
export interface Sync {
  connectors(query?: QueryOf<'listConnectors'>, options?: CallOptions): Pages<ItemOf<'listConnectors'>>
  pushEntities(rows: BodyOf<'pushEntities'>, options?: CallOptions): Promise<Result>
  pushOrgStructure(key: string, hierarchy: BodyOf<'pushOrgStructure'>, options?: CallOptions): Promise<Result>
  pushTestProcedures(rows: BodyOf<'pushTestProcedures'>, options?: CallOptions): Promise<Result>
  pushPeople(rows: BodyOf<'pushPeople'>, options?: CallOptions): Promise<Result>
}

export function openSync(connection: Connection): Sync {
  return {
    connectors: (query, options = {}) => pagesOf(connection, 'listConnectors', {}, query, options),
    pushEntities: async (body, options = {}) => await connection.call('pushEntities', { body, ...options }),
    pushOrgStructure: async (key, body, options = {}) =>
      await connection.call('pushOrgStructure', { params: { key }, body, ...options }),
    pushTestProcedures: async (body, options = {}) => await connection.call('pushTestProcedures', { body, ...options }),
    pushPeople: async (body, options = {}) => await connection.call('pushPeople', { body, ...options }),
  }
}
