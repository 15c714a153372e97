import { inspect } from 'node:util'
import type { Route } from '@postern/contracts'
import { Agent } from 'undici'
import { z } from 'zod'
import { type CheckedAnswer, assertInContract } from '../../test/support/contract.ts'
import { type Pool, harvest } from './pool.ts'
import { type Body, type Caller, type Draft, ownEtag } from './requests.ts'
import { publishedOf } from '../../test/support/published.ts'
import type { Witness } from './witness.ts'

export interface FilledRequest {
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body | undefined
}

export interface Fuzzer {
  /** Throws with request and response if the response is wrong. */
  run(route: Route, draft: Draft): Promise<number>
  readonly tally: ReadonlyMap<string, ReadonlyMap<number, number>>
}

/** Internals that no response may contain. */
const inside =
  /node_modules|\.ts:[0-9]+|SQLSTATE|\bpg_[a-z]|permission denied|violates |relation "|near "|duplicate key value|ECONN|ENOENT|postern-assertion|\bat (?:async )?[A-Za-z.]+ \((?:[^)\n]*:[0-9]+|native|<anonymous>)/

const withoutLeaseMs = 60_000

/** `authorizationOf` returns the credentials of a caller for a route. */
export function createFuzzer(options: {
  readonly gateway: string
  readonly pool: Pool
  readonly witness: Witness
  /** Only another tenant's resources contain it. */
  readonly canary: string
  readonly authorizationOf: (caller: Caller, route: Route) => string | undefined
}): Fuzzer {
  const { gateway, pool, witness, canary, authorizationOf } = options
  const connections = new Agent({ connections: 4, headersTimeout: 30_000, bodyTimeout: 30_000 })
  const tally = new Map<string, Map<number, number>>()

  async function exchange(route: Route, request: FilledRequest, caller: Caller): Promise<CheckedAnswer> {
    for (const from = performance.now(); ;) {
      const answer = await exchangeOnce(route, request, caller)
      const hasNoLease = answer.status === 503 && answer.text.includes('auth_unavailable')
      if (!hasNoLease || performance.now() - from > withoutLeaseMs) return answer
    }
  }

  async function exchangeOnce(route: Route, request: FilledRequest, caller: Caller): Promise<CheckedAnswer> {
    const authorization = authorizationOf(caller, route)
    const answer = await connections.request({
      origin: gateway,
      path: request.query === '' ? request.path : `${request.path}?${request.query}`,
      method: route.method,
      headers: {
        ...request.headers,
        ...(authorization === undefined ? {} : { authorization }),
        ...(request.body?.contentType === undefined ? {} : { 'content-type': request.body.contentType }),
      },
      body: request.body?.content ?? null,
    })
    const text = await answer.body.text()
    return { status: answer.statusCode, headers: answer.headers, text, json: parse(text) }
  }

  async function withOwnEtag(request: FilledRequest, route: Route): Promise<FilledRequest> {
    const [name] = Object.entries(request.headers).find(([, value]) => value === ownEtag) ?? []
    if (name === undefined) return request
    const path = request.path.replace(/\/(status|extensions|attachments|revisions)$/, '')
    const resource = { path, query: '', headers: {}, body: undefined }
    const { headers } = await exchange({ ...route, method: 'GET' }, resource, 'fit')
    return { ...request, headers: { ...request.headers, [name]: String(headers['etag'] ?? '"0"') } }
  }

  return {
    tally,
    run: async (route, draft) => {
      const request = await withOwnEtag(fill(pool, route, draft), route)
      const answer = await exchange(route, request, draft.caller)
      const counts = tally.get(route.id) ?? new Map<number, number>()
      tally.set(route.id, counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1))
      const fault = faultOf(route, request, answer, canary) ?? (await changedBy(witness, route, answer))
      if (fault !== undefined) throw new Error(`${fault}\n${describe(route, request, answer)}`)
      if (answer.status < 300) harvest(pool, request.path, answer)
      return answer.status
    },
  }
}

function fill(pool: Pool, route: Route, { params, query, headers, body }: Draft): FilledRequest {
  let at = 0
  const path = route.path.replaceAll(/:[a-z_]+/g, () => params[at++] ?? '-')
  return {
    path: pool.fill(path),
    query: pool.fill(query.join('&')),
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [
        name.toLowerCase(),
        value === ownEtag ? ownEtag : inHeader(pool.fill(value)),
      ]),
    ),
    body: body === undefined ? undefined : { ...body, content: fillContent(pool, body.content) },
  }
}

function inHeader(value: string): string {
  return value.replaceAll(/[^\u0020-\u007e\u0080-\u00ff]/g, '?').trim()
}

function fillContent(pool: Pool, content: string | Buffer): string | Buffer {
  if (typeof content === 'string') return pool.fill(content)
  return Buffer.from(pool.fill(content.toString('latin1')), 'latin1')
}

export function isUnsupported({ problems }: Route): boolean {
  return problems.includes('not_implemented')
}

function faultOf(route: Route, request: FilledRequest, answer: CheckedAnswer, canary: string): string | undefined {
  // A full store and unsupported operations are no failures.
  const isByDesign = answer.status === 507 || (answer.status === 501 && isUnsupported(route))
  if (answer.status >= 500 && !isByDesign) return 'The request caused a server error.'
  if (inside.test(answer.text)) return 'The response reveals internals.'
  if (answer.text.includes(canary)) return 'The response contains text of another tenant.'
  for (const name of ['server', 'x-powered-by'])
    if (answer.headers[name] !== undefined) return `The response has ${name}.`
  try {
    assertInContract(route.method, `${request.path}?${request.query}`, answer)
  } catch (error) {
    return `The response does not match the OpenAPI document: ${String(error).slice(0, 300)}`
  }
  const refusal = reasonToRefuse(route, request)
  if (refusal !== undefined && answer.status < 400) return `The request should be rejected: ${refusal}.`
  if (request.body?.spoiled !== undefined && route.body !== undefined && route.dialect === undefined)
    return faultOfRefusal(request.body.spoiled, request, answer)
  return undefined
}

/** Undefined if the request is valid or unclear. */
function reasonToRefuse(route: Route, { path, query, body }: FilledRequest): string | undefined {
  const names = [...route.path.matchAll(/:([a-z_]+)/g)].map(([, name = '']) => name)
  const pattern = new RegExp(`^${route.path.replaceAll(/:[a-z_]+/g, '([^/]+)')}$`)
  const values = pattern.exec(path)?.slice(1) ?? []
  if (names.length > 0) {
    const params = Object.fromEntries(names.map((name, at) => [name, decode(values[at] ?? '')]))
    if (route.params?.safeParse(params).success === false) return 'a parameter of the path'
  }
  const pairs = [...new URLSearchParams(query)]
  if (!/%(?![0-9A-Fa-f]{2})|%[89a-fA-F]|^$/.test(query) && pairs.every(([name]) => name !== '')) {
    const given = Object.fromEntries(
      [...Map.groupBy(pairs, ([name]) => name)].map(([name, list]) => [
        name,
        list.length === 1 ? list[0]?.[1] : list.map(([, value]) => value),
      ]),
    )
    // Pages and their script accept unknown parameters, which other tools add to URLs.
    const isPage = ['text/html', 'text/javascript'].includes(route.answers[200]?.mediaType ?? '')
    if (!isPage && !(route.query ?? z.strictObject({})).safeParse(given).success) return 'the query'
    // The document must describe everything that is accepted.
    const published = publishedOf(route)
    const lacking = Object.entries(given).find(
      ([name, value = '']) => published.faultOfParameter(name, value) !== undefined,
    )
    if (!isPage && lacking !== undefined) return `${lacking[0]} does not match the published schema`
  }
  if (route.body === undefined || typeof body?.content !== 'string') return undefined
  if (body.spoiled !== undefined) return `a body with ${body.spoiled}`
  if (!route.body.safeParse(parse(body.content)).success) return 'the body'
  // SCIM accepts more than its schema (RFC 7644). Items of a bulk request get their own results.
  const isLenient = route.dialect === 'scim' || route.path.endsWith('/bulk')
  const fault = isLenient ? undefined : publishedOf(route).faultOfBody(parse(body.content))
  return fault === undefined ? undefined : `the body does not match the published schema (${fault})`
}

/** It must say where the ambiguity is. */
function faultOfRefusal(
  spoiled: string,
  { headers }: FilledRequest,
  { status, json }: CheckedAnswer,
): string | undefined {
  const refusal = z
    .object({ code: z.enum(['malformed_json', 'invalid_content']), errors: z.array(z.object({ pointer: z.string() })) })
    .safeParse(json)
  const isOfBytes = spoiled.startsWith('bytes') || spoiled.startsWith('two byte order')
  if (refusal.success || isOfBytes || (status !== 400 && status !== 422)) return undefined
  const other = z.object({ errors: z.array(z.object({ parameter: z.string() })).min(1) }).safeParse(json)
  const isOfUrl = z.object({ code: z.enum(['non_canonical_path', 'bad_request']) }).safeParse(json)
  // Then nothing else is reported.
  const isOfDigest =
    headers['content-digest'] !== undefined && z.object({ code: z.literal('digest_mismatch') }).safeParse(json).success
  return other.success || isOfUrl.success || isOfDigest ? undefined : `No pointer shows the position of ${spoiled}.`
}

async function changedBy(witness: Witness, route: Route, answer: CheckedAnswer): Promise<string | undefined> {
  // Reads of evidence are recorded in this table.
  const isNoted = route.id === 'evidence.read-content'
  if ((route.method === 'GET' || route.method === 'HEAD') && !isNoted) return undefined
  if (answer.status < 400) {
    await witness.accept()
    return undefined
  }
  const changed = await witness.changed()
  return changed === undefined ? undefined : `The request was rejected but changed ${changed}.`
}

function describe(route: Route, request: FilledRequest, answer: CheckedAnswer): string {
  const content = request.body === undefined ? '' : inspect(request.body, { maxStringLength: 2000, depth: 3 })
  return [
    `${route.id}: ${route.method} ${request.path}?${request.query}`,
    inspect(request.headers),
    content,
    `was answered ${answer.status} ${answer.text.slice(0, 2000)}`,
  ].join('\n')
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
