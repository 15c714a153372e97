import { ldap, sql } from './server-sources.ts'
import type { Setting, SourceInfo, SourceType, Values } from './setting.ts'
import { csv, httpJson, scim } from './web-sources.ts'

/** What there is to set of each type of source, in the order in which they are offered. */
export const sources: Readonly<Record<SourceType, SourceInfo>> = { csv, http_json: httpJson, scim, ldap, sql }

/** Those of the settings that are asked for now. */
export function askedSettings(type: SourceType, values: Values): readonly Setting[] {
  return sources[type].settings.filter(({ when }) => when === undefined || when(values))
}
