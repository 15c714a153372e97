import { csv } from './csv/csv.ts'
import { httpJson } from './http/http-json.ts'
import { scim } from './http/scim.ts'
import { ldap } from './ldap/ldap.ts'
import { sql } from './sql/sql.ts'
import type { SourceType } from './types.ts'

const types: readonly SourceType[] = [csv, httpJson, ldap, scim, sql]

export const sourceTypes: ReadonlyMap<string, SourceType> = new Map(types.map((each) => [each.type, each]))
