import { ldap, sql } from './server-sources.ts'
import type { Setting, SourceInfo, SourceType, Values } from './setting.ts'
import { csv, httpJson, scim } from './web-sources.ts'

/** The settings of each source type in display order. */
export const sources: Readonly<Record<SourceType, SourceInfo>> = { csv, http_json: httpJson, scim, ldap, sql }

/** Returns the settings that apply to the current values. */
export function askedSettings(type: SourceType, values: Values): readonly Setting[] {
  return sources[type].settings.filter(({ when }) => when === undefined || when(values))
}
