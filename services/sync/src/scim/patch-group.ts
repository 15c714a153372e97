import { type ScimPatch, groupUrn, scimGroupInputSchema } from '@postern/contracts'
import { parse } from 'scim2-parse-filter'
import { groupSchema } from './attributes.ts'
import { hasNameTwice, isOfOtherSchema, isRecord } from './content.ts'
import { patchProblem, repeatedNameProblem } from './patch-problem.ts'

export type GroupStep =
  | { readonly kind: 'display-name'; readonly value: string }
  | { readonly kind: 'external-id'; readonly value: string | undefined }
  | { readonly kind: 'add' | 'remove' | 'replace'; readonly ids: readonly string[] }
  | { readonly kind: 'clear' }

const memberList = scimGroupInputSchema.out.shape.members
const namesOnly = scimGroupInputSchema.out.pick({ displayName: true, externalId: true }).partial()

/** Converts a patch (RFC 7644, section 3.5.2) to steps for SQL, because a group can have many members. */
export function stepsOf({ Operations }: Pick<ScimPatch, 'Operations'>): GroupStep[] {
  const steps = Operations.flatMap(({ op, path, value }) => stepsOfOne(op.toLowerCase(), path, value))
  return steps.reduce<GroupStep[]>(joinStep, [])
}

/** Joins steps, because providers send one operation for each member. */
function joinStep(steps: GroupStep[], step: GroupStep): GroupStep[] {
  const last = steps.at(-1)
  if ((step.kind === 'add' || step.kind === 'remove') && last?.kind === step.kind) {
    steps[steps.length - 1] = { kind: step.kind, ids: [...last.ids, ...step.ids] }
  } else steps.push(step)
  return steps
}

function stepsOfOne(op: string, path: string | undefined, value: unknown): GroupStep[] {
  if (path === undefined) {
    if (op === 'remove') throw patchProblem('noTarget', 'a removal needs a path')
    if (!isRecord(value)) throw patchProblem('invalidValue', 'without a path the value must be an object')
    if (hasNameTwice(value)) throw repeatedNameProblem()
    return Object.entries(value).flatMap(([name, inner]) => (isIgnored(name) ? [] : stepsOfOne(op, name, inner)))
  }
  if (path.toLowerCase() === groupUrn.toLowerCase() && op !== 'remove') return stepsOfOne(op, undefined, value)
  const name = path.toLowerCase().startsWith(`${groupUrn.toLowerCase()}:`) ? path.slice(groupUrn.length + 1) : path
  switch (name.toLowerCase()) {
    case 'displayname':
      if (op === 'remove') throw patchProblem('invalidValue', 'a group must have a displayName')
      return [{ kind: 'display-name', value: parseText('displayName', value) }]
    case 'externalid':
      return [
        { kind: 'external-id', value: op === 'remove' || value === null ? undefined : parseText('externalId', value) },
      ]
    case 'members':
      return membersStep(op, value)
    case 'id':
    case 'meta':
    case 'schemas':
      return []
    default:
      if (isOfOtherSchema(name) || (name !== path && isIgnored(name))) return []
      return [{ kind: 'remove', ids: filteredMembers(op, name) }]
  }
}

/** PATCH ignores unknown members, as POST and PUT do. */
function isIgnored(name: string): boolean {
  const known = [...groupSchema.attributes.map((each) => each.name), groupUrn]
  return !/[:.[]/.test(name) && !known.some((each) => each.toLowerCase() === name.toLowerCase())
}

function membersStep(op: string, value: unknown): GroupStep[] {
  if (op === 'remove' && (value ?? '') === '') return [{ kind: 'clear' }]
  const parsed = memberList.safeParse(value)
  if (!parsed.success)
    throw patchProblem('invalidValue', 'members must be objects whose value is the id of a user or group')
  const ids = (parsed.data ?? []).map((member) => member.value)
  return [{ kind: op === 'add' ? 'add' : op === 'remove' ? 'remove' : 'replace', ids }]
}

function parseText(name: 'displayName' | 'externalId', value: unknown): string {
  const parsed = namesOnly.safeParse({ [name]: value })
  const given = parsed.success ? parsed.data[name] : undefined
  if (given === undefined || given === null) throw patchProblem('invalidValue', `${name} must be a line of text`)
  return given
}

/** Parses `members[value eq "…"]`, with several ids joined by `or`. */
function filteredMembers(op: string, path: string): string[] {
  if (!/^members\[/i.test(path)) throw patchProblem('invalidPath', `there is no attribute ${path.slice(0, 80)}`)
  if (op !== 'remove') throw patchProblem('invalidPath', 'a filter can select members only for removal')
  try {
    const filter = parse(path)
    if (filter.op === '[]') {
      const each = filter.valFilter.op === 'or' ? filter.valFilter.filters : [filter.valFilter]
      const ids = each.flatMap((term) =>
        term.op === 'eq' && term.attrPath.toLowerCase() === 'value' ? [String(term.compValue)] : [],
      )
      const parsed = memberList.safeParse(ids.map((value) => ({ value })))
      if (ids.length === each.length && parsed.success) return (parsed.data ?? []).map(({ value }) => value)
    }
  } catch (cause) {
    throw patchProblem('invalidFilter', 'the filter in the path cannot be read', cause)
  }
  throw patchProblem('invalidFilter', 'members can be selected only by `value eq` and an id')
}
