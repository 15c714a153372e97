import { isDeepStrictEqual } from 'node:util'
import {
  type InputError,
  type ProblemCode,
  type Route,
  isScimTarget,
  itemSchemaOf,
  mediaTypesOf,
  pageMediaType,
  tableColumnsOf,
  workbookMediaType,
  membersOf,
  problemSchema,
  problemTypes,
  problemUri,
  problemsOf,
  requiredHeadersOf,
  routeTable,
  scimErrorSchema,
  scimMediaType,
} from '@postern/contracts'
import { z } from 'zod'
import { parseCsv } from './csv.ts'
import { publishedOf } from './published.ts'

/** The parts of a response that the contract covers. */
export interface CheckedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  readonly json: unknown
}

// Fixed path segments take precedence over parameters, as in the gateway.
const routes = routeTable
  .map((route) => ({
    route,
    parameters: route.path.split(':').length,
    pattern: new RegExp(`^${route.path.replaceAll('.', String.raw`\.`).replaceAll(/:[a-z_]+/g, '[^/]+')}$`),
  }))
  .toSorted((a, b) => a.parameters - b.parameters)

/**
 * Throws unless the response matches the API contract: a status, body and problem of its route, or a problem document
 * without a route. Every gateway response in the tests is checked here.
 */
export function assertInContract(method: string, target: string, answer: CheckedAnswer): void {
  const [path = ''] = target.split('?', 1)
  const routeOf = (asked: string) =>
    routes.find((each) => each.route.method === asked && each.pattern.test(path))?.route
  const route = routeOf(method) ?? (method === 'HEAD' ? routeOf('GET') : undefined)
  // For an oversized head, the gateway does not know the route.
  const isScim = isScimTarget(path) && answer.status !== problemTypes.header_fields_too_large.status
  const fault =
    answer.status >= 400
      ? isScim
        ? faultOfScimError(method, answer)
        : faultOfProblem(route, method, answer)
      : faultOfSuccess(route, method, answer, membersAsked(target))
  if (fault !== undefined) throw new Error(`${method} ${path} was answered ${answer.status}, ${fault}: ${answer.text}`)
  if (typeof answer.headers['x-request-id'] !== 'string') throw new Error(`${method} ${path}: no X-Request-Id`)
  const missing = route === undefined || isPastTheGateway(answer) ? [] : missingHeaders(route, answer)
  if (missing.length > 0)
    throw new Error(`${method} ${path} was answered ${answer.status} without ${missing.join(', ')}`)
}

/** Direct calls to a service are rejected, which the API contract does not describe. */
function isPastTheGateway({ json }: CheckedAnswer): boolean {
  const parsed = problemSchema.safeParse(json)
  return parsed.success && parsed.data.code === 'unsigned_request'
}

/** Returns documented headers that are missing. Responses of services lack the gateway's headers. */
function missingHeaders(route: Route, { status, headers }: CheckedAnswer): string[] {
  const isGateways = headers['api-version'] !== undefined
  return requiredHeadersOf(route, status).filter(
    (name) => headers[name] === undefined && (isGateways || !gatewaysHeaders.has(name)),
  )
}

const gatewaysHeaders: ReadonlySet<string> = new Set(['api-version', 'ratelimit', 'ratelimit-policy'])

function faultOfProblem(route: Route | undefined, method: string, answer: CheckedAnswer): string | undefined {
  if (method === 'HEAD') return answer.text === '' ? undefined : 'with a body'
  if (answer.headers['content-type'] !== 'application/problem+json') return 'which is no problem document'
  const parsed = problemSchema.strict().safeParse(answer.json)
  if (!parsed.success) return 'with a problem document that is not valid'
  const { code, status, title, type, instance } = parsed.data
  const known = Object.entries(problemTypes).find(([name]) => name === code)
  if (known === undefined || known[1].status !== answer.status || status !== answer.status) return 'with the wrong code'
  const name = knownCode(code)
  if (name === undefined || title !== known[1].title || type !== problemUri(name)) return 'with the wrong words'
  if (instance !== answer.headers['x-request-id']) return 'with the id of another request'
  if (ofInput.has(code) && !isPlaced(parsed.data)) return 'without the positions to correct in the request'
  if (route === undefined || isPastTheGateway(answer)) return undefined
  if (!problemsOf(route).has(name)) return 'which the contract of the route does not have'
  return unpublished(publishedOf(route).faultOfAnswer(status, 'application/problem+json', answer.json))
}

/** Problems of the input, which must have pointers. */
const ofInput: ReadonlySet<string> = new Set([
  'bad_request',
  'malformed_json',
  'invalid_content',
  'digest_mismatch',
  'idempotency_key_reused',
] satisfies ProblemCode[])

function isPlaced({ errors = [] }: z.infer<typeof problemSchema>): boolean {
  return errors.length > 0 && errors.every(isOnePlace)
}

function isOnePlace({ pointer, parameter }: InputError): boolean {
  return (pointer === undefined) !== (parameter === undefined)
}

/** SCIM errors have no problem codes, so only their form and status are checked. */
function faultOfScimError(method: string, answer: CheckedAnswer): string | undefined {
  if (method === 'HEAD') return answer.text === '' ? undefined : 'with a body'
  if (answer.headers['content-type'] !== scimMediaType) return 'which is no error of SCIM'
  const parsed = scimErrorSchema.strict().safeParse(answer.json)
  if (!parsed.success) return 'with an error of SCIM that is not valid'
  if (parsed.data.status !== String(answer.status)) return 'with another status in its body'
  const id = String(answer.headers['x-request-id'])
  return parsed.data.detail.endsWith(`Request ${id}.`) ? undefined : 'with the id of another request'
}

function knownCode(code: string): keyof typeof problemTypes | undefined {
  return Object.keys(problemTypes).find((name): name is keyof typeof problemTypes => name === code)
}

/** Returns the members selected by `fields` and `expand`; undefined: all. */
function membersAsked(target: string): readonly string[] | undefined {
  const query = new URLSearchParams(target.split('?', 2)[1] ?? '')
  const words = (name: string) => query.getAll(name).flatMap((value) => value.split(','))
  return query.has('fields') ? [...words('fields'), ...words('expand').flatMap(membersOf)] : undefined
}

/** Returns the response schema limited to these members. */
function limitedTo(schema: z.ZodType, members: readonly string[] | undefined): z.ZodType {
  if (members === undefined) return schema
  if (schema instanceof z.ZodArray && schema.element instanceof z.ZodType)
    return z.array(limitedTo(schema.element, members))
  if (!(schema instanceof z.ZodObject)) return schema
  const kept = Object.entries(schema.shape).filter(([name]) => members.includes(name))
  return z.object(Object.fromEntries(kept))
}

function faultOfSuccess(
  route: Route | undefined,
  method: string,
  answer: CheckedAnswer,
  members: readonly string[] | undefined,
): string | undefined {
  if (route === undefined) return 'though there is no such route'
  const contract = route.answers[answer.status]
  if (contract === undefined) return 'which the contract of the route does not have'
  if (method === 'HEAD' || answer.status === 304) return answer.text === '' ? undefined : 'with a body'
  if (contract.schema === undefined) return undefined
  const mediaType = String(answer.headers['content-type']).split(';', 1)[0] ?? ''
  if (!mediaTypesOf(route).includes(mediaType)) return 'in a media type that the contract does not have'
  if (mediaType === 'application/x-ndjson') return faultOfLines(route, answer.text, members)
  if (mediaType === 'text/csv') return faultOfCsv(route, answer.text, members)
  if (mediaType === workbookMediaType) return answer.text.startsWith('PK') ? undefined : 'with no workbook'
  if (mediaType === pageMediaType) {
    const { data } = z.object({ items: z.unknown(), next: z.string().nullable() }).safeParse(answer.json)
    return data === undefined ? 'with no page' : faultOfJson(limitedTo(contract.schema, members), data.items)
  }
  return (
    faultOfJson(limitedTo(contract.schema, members), answer.json) ??
    unpublished(publishedOf(route).faultOfAnswer(answer.status, mediaType, answer.json, members))
  )
}

/** Tests check against the contract, clients use the document: responses must match both. */
function unpublished(fault: string | undefined): string | undefined {
  return fault === undefined ? undefined : `which the OpenAPI document does not have (${fault})`
}

function faultOfJson(schema: z.ZodType, json: unknown): string | undefined {
  const parsed = schema.safeParse(json)
  if (!parsed.success) return 'with a body that is not in the contract'
  return isDeepStrictEqual(parsed.data, json) ? undefined : 'with members that are not in the contract'
}

function faultOfLines(route: Route, text: string, members: readonly string[] | undefined): string | undefined {
  const item = itemSchemaOf(route)
  if (item === undefined) return 'with lines, though it is no list'
  if (text.trim() !== '' && !text.endsWith('\n')) return 'with a last line that does not end'
  const lines = text.split('\n').slice(0, -1)
  const schema = limitedTo(item, members)
  const published = publishedOf(route)
  return lines
    .map((line): unknown => JSON.parse(line))
    .map((json) => faultOfJson(schema, json) ?? unpublished(published.faultOfItem(json, members)))
    .find((fault) => fault !== undefined)
}

function faultOfCsv(route: Route, text: string, members: readonly string[] | undefined): string | undefined {
  const [first = ''] = text.split('\r\n', 1)
  const separator = first.includes(';') ? ';' : first.includes('\t') ? '\t' : ','
  const [header = [], ...rows] = parseCsv(text, separator)
  const asked = tableColumnsOf(route).filter(({ member }) => members?.includes(member) ?? true)
  const columns = asked.map(({ name }) => name)
  if (!isDeepStrictEqual(header, columns)) return 'with columns of its own'
  return rows.every((row) => row.length === header.length) ? undefined : 'with a row that has not all columns'
}
