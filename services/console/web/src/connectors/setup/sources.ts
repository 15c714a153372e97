import { ldap, sql } from './server-sources.ts'
import type { Setting, SourceInfo, SourceType, Values } from './setting.ts'
import { csv, httpJson, scim } from './web-sources.ts'

export const sources: Readonly<Record<SourceType, SourceInfo>> = { csv, http_json: httpJson, scim, ldap, sql }

export function shownSettings(type: SourceType, values: Values): readonly Setting[] {
  return sources[type].settings.filter(({ when }) => when === undefined || when(values))
}
