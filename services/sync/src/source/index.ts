import { csv } from './csv/csv.ts'
import { httpJson } from './http/http-json.ts'
import type { SourceType } from './types.ts'

const types: readonly SourceType[] = [csv, httpJson]

/** The kinds of source that a connector may have, by their names. */
export const sourceTypes: ReadonlyMap<string, SourceType> = new Map(types.map((each) => [each.type, each]))
