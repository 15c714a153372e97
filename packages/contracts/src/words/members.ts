import { type Json, asJson, asList, mapMembers } from '../published/json.ts'
import type { Word } from './word.ts'
import { evidenceWords } from './evidence.ts'
import { findingWords } from './findings.ts'
import { keyWords } from './keys.ts'
import { scimWords } from './scim.ts'
import { syncWords } from './sync.ts'
import { universeWords } from './universe.ts'

/** By name or, if a name means something else in one schema, by `Schema.name`. */
const words: Readonly<Record<string, Word>> = {
  ...scimWords,
  ...evidenceWords,
  ...syncWords,
  ...universeWords,
  ...keyWords,
  ...findingWords,
}

/** Members keep descriptions of their own. */
export function withMemberWords(component: string, schema: unknown): unknown {
  // The members of OSCAL are described by NIST.
  if (component.startsWith('Oscal')) return schema
  if (Array.isArray(schema)) return schema.map((part) => withMemberWords(component, part))
  if (typeof schema !== 'object' || schema === null) return schema
  return mapMembers(schema, (part, keyword) => {
    if (values.has(keyword)) return part
    if (keyword !== 'properties') return withMemberWords(component, part)
    return mapMembers(part, (member, name) => describe(asJson(withMemberWords(component, member)), component, name))
  })
}

const values: ReadonlySet<string> = new Set(['example', 'examples', 'enum', 'const', 'default'])

function describe(member: Json, component: string, name: string): Json {
  const [description, example] = words[`${component}.${name}`] ?? words[name] ?? []
  return {
    ...(description === undefined || 'description' in member ? {} : { description }),
    ...withExample(member, example),
  }
}

function withExample(member: Json, example: string | number | undefined): Json {
  if (example === undefined) return member
  if (member['type'] === 'array') return { ...member, items: withExample(asJson(member['items']), example) }
  const choices = asList(member['anyOf']).map(asJson)
  const forms = choices.length === 0 ? [member] : choices.filter(({ type }) => type !== 'null')
  const fits = forms.every((form) => isFree(form) && isOf(form['type'], typeof example))
  return fits ? { ...member, examples: [example] } : member
}

function isFree(schema: Json): boolean {
  return !['$ref', 'examples', 'enum', 'const', 'format', 'default'].some((keyword) => keyword in schema)
}

function isOf(type: unknown, wanted: string): boolean {
  const types = Array.isArray(type) ? type : [type]
  return types.includes(wanted) || (wanted === 'number' && types.includes('integer'))
}
