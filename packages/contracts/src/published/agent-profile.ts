import type { Route } from '../route.ts'
import { routeTable } from '../route-table.ts'
import { type Json, asJson, asList, mapMembers, omit, resolve } from './json.ts'
import { operationIdOf } from './operation-id.ts'

/** An operation that an agent is offered as a tool. */
export interface AgentOperation {
  readonly operationId: string
  /** One sentence: when an agent should use it. */
  readonly use: string
  /** Members that a short answer contains, if the operation has `fields`. */
  readonly fields?: readonly string[]
}

/** Few enough for an agent to choose from. Reading comes first; the others write. */
export const agentOperations: readonly AgentOperation[] = [
  { operationId: 'whoAmI', use: 'Use this first, to see the tenant and the scopes of the key.' },
  {
    operationId: 'listFindings',
    use: 'Use this to search findings by severity, status, owner, entity, date or words.',
    fields: ['id', 'reference', 'title', 'severity', 'status', 'owner', 'target_date', 'is_overdue'],
  },
  { operationId: 'getFinding', use: 'Use this to read one finding in full before you discuss or change it.' },
  { operationId: 'summarizeFindings', use: 'Use this to count findings; it is cheaper than listing them.' },
  { operationId: 'getFindingTransitions', use: 'Use this before you change a status, to see which are allowed.' },
  { operationId: 'listRecommendationsOfFinding', use: 'Use this to see what was recommended for a finding.' },
  {
    operationId: 'listActionPlans',
    use: 'Use this to find action plans that are due, overdue or owned by a person.',
    fields: ['id', 'finding_id', 'title', 'status', 'owner', 'due_date', 'is_overdue'],
  },
  { operationId: 'getActionPlan', use: 'Use this to read one action plan in full.' },
  { operationId: 'listLogOfFinding', use: 'Use this to see what happened to a finding, oldest first.' },
  { operationId: 'listChanges', use: 'Use this to see what has changed since a position that you have kept.' },
  { operationId: 'listEntities', use: 'Use this to find business units, processes and systems by name or type.' },
  { operationId: 'getEntity', use: 'Use this to read one auditable entity.' },
  { operationId: 'listChildrenOfEntity', use: 'Use this to go down one level from an entity.' },
  { operationId: 'listHierarchies', use: 'Use this to see which hierarchies exist, before you read one.' },
  { operationId: 'getTree', use: 'Use this to read a whole hierarchy, or the part below a node.' },
  { operationId: 'listTestProcedures', use: 'Use this to find the test procedures of an entity.' },
  { operationId: 'listPeople', use: 'Use this to find the person that a name or an address belongs to.' },
  { operationId: 'listConnectors', use: 'Use this to see the sources of the audit universe.' },
  { operationId: 'listRuns', use: 'Use this to see whether imports succeeded.' },
  { operationId: 'getRun', use: 'Use this to read one import: its counts and why it stopped.' },
  {
    operationId: 'createFinding',
    use: 'Use this to document a new finding, after you have searched for the same one.',
  },
  { operationId: 'updateFinding', use: 'Use this to correct a finding that you have just read.' },
  { operationId: 'changeFindingStatus', use: 'Use this to move a finding to a status that is allowed.' },
  { operationId: 'createRecommendation', use: 'Use this to add a recommendation to a finding.' },
  { operationId: 'createActionPlan', use: 'Use this to propose an action plan for a finding.' },
  { operationId: 'createLogEntry', use: 'Use this to add a comment to the log of a finding.' },
]

export function listAgentRoutes(): readonly Route[] {
  const offered = new Set(agentOperations.map(({ operationId }) => operationId))
  return routeTable.filter(({ id }) => offered.has(operationIdOf(id)))
}

/** Parameters that are of no use to an agent: it reads JSON, and its program sends the headers. */
const omittedParameters = new Set([
  'csv',
  'separator',
  'formulas',
  'format',
  'envelope',
  'X-Request-Id',
  'Idempotency-Key',
  'Content-Digest',
  'If-None-Match',
])

/** Long, and of no use to an agent: the API checks what it sends. */
const notes = new Set([
  'example',
  'examples',
  'pattern',
  'x-columns',
  'if',
  'then',
  'else',
  'minLength',
  'minItems',
  'maxItems',
])

const introduction =
  'The operations of Postern for an AI agent, each with when to use it. Send `Authorization: ApiKey <key>`. ' +
  'Lists are short with `limit` and `fields`. An error has a `detail` that says what to do.'

/** Returns the part of the published document that an agent needs, without examples, patterns and lists of problem codes. */
export function agentOpenApi(published: Json): Json {
  const uses = new Map(agentOperations.map(({ operationId, use }) => [operationId, use]))
  const paths: Record<string, Json> = {}
  for (const [path, item] of Object.entries(asJson(published['paths']))) {
    const chosen = Object.entries(asJson(item)).filter(([, each]) => uses.has(String(asJson(each)['operationId'])))
    if (chosen.length === 0) continue
    paths[path] = Object.fromEntries(
      chosen.map(([method, each]) => [method, operationFor(asJson(each), published, uses)]),
    )
  }
  const components = mapMembers(published['components'], (group) => mapMembers(group, (part) => withoutExamples(part)))
  return {
    ...omit(published, 'x-problem-codes', 'x-scopes'),
    info: { ...asJson(published['info']), title: 'Postern for agents', description: introduction },
    paths,
    components: {
      ...withoutUnused(components, paths),
      securitySchemes: { keyAuth: asJson(components['securitySchemes'])['keyAuth'] },
    },
  }
}

function operationFor(operation: Json, published: Json, uses: ReadonlyMap<string, string>): Json {
  const { operationId, tags, summary, description, parameters, requestBody, responses } = operation
  const answers = Object.entries(asJson(responses)).filter(([status]) => status.startsWith('2') || status === 'default')
  return {
    operationId,
    tags,
    summary,
    description: [uses.get(String(operationId)), description].join(' '),
    ...(operation['x-required-scope'] === undefined ? {} : { 'x-required-scope': operation['x-required-scope'] }),
    security: [{ keyAuth: [] }],
    parameters: asList(parameters)
      .filter((each) => !omittedParameters.has(String(asJson(resolve(each, published))['name'])))
      .map((each) => withoutExamples(each)),
    ...(requestBody === undefined ? {} : { requestBody: withoutExamples(requestBody) }),
    responses: Object.fromEntries(
      answers.map(([status, answer]) => [status, answerFor(asJson(resolve(answer, published)))]),
    ),
  }
}

/** Without headers, which agents do not see. */
function answerFor(answer: Json): unknown {
  return withoutExamples(omit(answer, 'headers'))
}

/** `properties` has members of any name. */
function withoutExamples(value: unknown, isProperties = false): unknown {
  if (Array.isArray(value)) return asList(value).map((each) => withoutExamples(each))
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(([name]) => isProperties || !notes.has(name))
  return Object.fromEntries(kept.map(([name, member]) => [name, withoutExamples(member, name === 'properties')]))
}

function withoutUnused(components: Json, paths: Json): Json {
  const used = new Set<string>()
  const pending: unknown[] = [paths]
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    for (const reference of referencesIn(part)) {
      if (used.has(reference)) continue
      used.add(reference)
      const [group = '', name = ''] = reference.replace('#/components/', '').split('/')
      pending.push(asJson(components[group])[name] ?? {})
    }
  }
  return mapMembers(omit(components, 'securitySchemes'), (group, groupName) =>
    Object.fromEntries(Object.entries(asJson(group)).filter(([name]) => used.has(`#/components/${groupName}/${name}`))),
  )
}

function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  const { $ref } = asJson(value)
  return [...(typeof $ref === 'string' ? [$ref] : []), ...Object.values(value).flatMap(referencesIn)]
}
