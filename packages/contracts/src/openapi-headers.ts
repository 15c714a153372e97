import { nextUpdatedSinceHeader } from './page.ts'
import { mediaTypesOf } from './media-types.ts'
import { type Route, headersOnEveryAnswer } from './route.ts'
import { isRepeatable, problemsOf } from './route-problems.ts'

type Json = Record<string, unknown>

const text = { type: 'string' } as const

const responseHeaders = {
  RequestId: ['X-Request-Id', 'The id of the request; the `instance` of a problem', '0G4Yb3kQX1-8'],
  ApiVersion: ['API-Version', 'The version of this interface', '1.0.0-beta'],
  RateLimitPolicy: ['RateLimit-Policy', 'The limit: requests (`q`) in so many seconds (`w`)', '"caller";q=600;w=60'],
  RateLimit: [
    'RateLimit',
    'Remaining requests (`r`), and the seconds until the limit is full again (`t`)',
    '"caller";r=598;t=42',
  ],
  KeyExpiresAt: ['X-Key-Expires-At', 'The expiry of the key, in its last 14 days', '2026-11-30T00:00:00.000Z'],
  ETag: ['ETag', 'The entity tag of the resource, for If-Match and If-None-Match', '"3.2026-11-21"'],
  Location: ['Location', 'The URL of the new resource', '/api/v1/findings/019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'],
  Link: ['Link', 'The next page (RFC 8288), if there is one', '</api/v1/findings?cursor=WyJhIl0>; rel="next"'],
  Vary: ['Vary', 'The request headers that the response depends on', 'accept'],
  TotalCount: ['X-Total-Count', 'With `count=true`: the number of resources on all pages', '1204'],
  NextUpdatedSince: [
    nextUpdatedSinceHeader,
    'The value of `updated_since` for the next load. All pages of a load have the value of the first one',
    '2026-11-21T09:30:00.000Z_1042',
  ],
  Disposition: [
    'Content-Disposition',
    'For a CSV: `attachment` and the file name',
    'attachment; filename="findings.csv"',
  ],
  Replayed: ['Idempotent-Replayed', '`true` if the response is from an earlier request', 'true'],
  RetryAfter: ['Retry-After', 'Seconds to wait before a retry', '1'],
  Authenticate: ['WWW-Authenticate', 'The scheme, and what is wrong with the credentials', 'ApiKey realm="postern"'],
  ScopeChallenge: [
    'WWW-Authenticate',
    'If the credentials lack a scope: the scope that is needed (RFC 6750 §3.1)',
    'ApiKey realm="postern", error="insufficient_scope", scope="read:findings"',
  ],
} as const satisfies Readonly<Record<string, readonly [name: string, description: string, example: string]>>

type HeaderKey = keyof typeof responseHeaders

const always: ReadonlySet<HeaderKey> = new Set(['RequestId', 'ApiVersion', 'ETag', 'Location', 'Vary', 'Authenticate'])

export function headerComponents(): Json {
  return Object.fromEntries(
    Object.entries(responseHeaders).map(([key, [, description, example]]) => [
      key,
      { description, ...(isAlways(key) ? { required: true } : {}), schema: text, example },
    ]),
  )
}

function isAlways(key: string): boolean {
  return [...always].some((name) => name === key)
}

/** Lower-case names of headers that every response with this status has. */
export function requiredHeadersOf(route: Route, status: number): string[] {
  const keys = keysOf(route, status)
  const ofCallers = status < 400 && keys.includes('RateLimit') ? (['RateLimit', 'RateLimitPolicy'] as const) : []
  const ofKeys = [...keys.filter((key) => always.has(key)), ...ofCallers]
  return [
    ...ofKeys.map((key) => responseHeaders[key][0].toLowerCase()),
    ...(status < 400 ? headersOnEveryAnswer(route).map(([name]) => name) : []),
  ]
}

export function isSyncedList({ query }: Pick<Route, 'query'>): boolean {
  return query?.shape['cursor'] !== undefined && query.shape['updated_since'] !== undefined
}

function keysOf(route: Route, status: number): HeaderKey[] {
  const keys: HeaderKey[] = ['RequestId', 'ApiVersion']
  if (route.access.kind !== 'public' && status !== 401) {
    keys.push('RateLimitPolicy', 'RateLimit')
    if (route.access.kind !== 'person') keys.push('KeyExpiresAt')
  }
  if (status === 401) keys.push('Authenticate')
  if (status === 403) keys.push('ScopeChallenge')
  if (status === 409 && isRepeatable(route)) keys.push('RetryAfter')
  if (status === 429 || status === 503 || status === 507) keys.push('RetryAfter')
  if (status < 300) {
    if (route.answers[304] !== undefined || (route.method === 'PATCH' && route.body !== undefined) || status === 201)
      keys.push('ETag')
    if (status === 201 || status === 202) keys.push('Location')
    if (mediaTypesOf(route).length > 1) keys.push('Vary')
    if (mediaTypesOf(route).includes('text/csv')) keys.push('Disposition')
    if (route.query?.shape['cursor'] !== undefined) keys.push('Link')
    if (route.query?.shape['count'] !== undefined) keys.push('TotalCount')
    if (isSyncedList(route)) keys.push('NextUpdatedSince')
    if (isRepeatable(route)) keys.push('Replayed')
  }
  if (status === 304) keys.push('ETag')
  const lacking: readonly string[] = route.answers[status]?.withoutHeaders ?? []
  return keys.filter((key) => !lacking.includes(key))
}

/** Lower-case names of headers that responses may have. */
export function answerHeaderNamesOf(route: Route): string[] {
  const statuses = [...Object.keys(route.answers).map(Number), 401, 409, 429, 503, 507]
  const names = [
    ...statuses.flatMap((status) => keysOf(route, status).map((key) => responseHeaders[key][0])),
    ...Object.values(route.answers).flatMap(({ headers = {} }) => Object.keys(headers)),
    ...Object.keys(route.onEveryAnswer ?? {}),
  ]
  return [...new Set(names.map((name) => name.toLowerCase()))]
}

export function headersOf(route: Route, status: number): Json {
  const keys = keysOf(route, status)
  const own = Object.entries(route.answers[status]?.headers ?? {})
  const onAll = Object.entries(route.onEveryAnswer ?? {})
  return {
    headers: {
      ...Object.fromEntries(keys.map((key) => [responseHeaders[key][0], { $ref: `#/components/headers/${key}` }])),
      ...Object.fromEntries(
        onAll.map(([name, { description, value }]) => {
          // A request rejected before its path is parsed has no route.
          const where = status < 400 ? '' : ', if the path could be parsed'
          return [name, { description: `${description}${where}`, required: status < 400, schema: text, example: value }]
        }),
      ),
      ...Object.fromEntries(own.map(([name, description]) => [name, { description, schema: text }])),
    },
  }
}

/** Without credentials and headers that describe the body. */
export function headerParameters(route: Route): Json[] {
  const list = [
    parameter('X-Request-Id', 'Your own id for the request, 8 to 128 of A-Z a-z 0-9 . _ -', 'nightly-2026-11-21.1'),
  ]
  if (isRepeatable(route)) {
    list.push(
      parameter(
        'Idempotency-Key',
        'A new value for each request, 1 to 255 visible ASCII characters. Within 24 hours, a repeated request with the same value gets the first response again and has no second effect. Rejected requests are processed again.',
        '4f1c0a52-8d0c-4a53-a8a5-7f3f0f0c2d19',
      ),
    )
  }
  if (route.answers[304] !== undefined) {
    list.push(parameter('If-None-Match', 'The entity tag of your copy; returns 304 if it is current', '"3.2026-11-21"'))
  }
  const isRequired = route.problems.includes('precondition_required')
  if (isRequired || route.problems.includes('precondition_failed')) {
    list.push(parameter('If-Match', 'The entity tag of the resource as you read it', '"3.2026-11-21"', isRequired))
  }
  if (problemsOf(route).has('digest_mismatch') && !route.problems.includes('unsupported_protocol')) {
    const algorithms = route.body === undefined ? 'sha-256' : 'sha-256 or sha-512'
    list.push(
      parameter(
        'Content-Digest',
        `The digest of the body (RFC 9530, ${algorithms}), which is verified if present: \`sha-256=:\`, the digest in base64, and \`:\``,
        // An example would be wrong for every body but one.
        undefined,
      ),
    )
  }
  for (const [name, { description, example, required }] of Object.entries(route.requestHeaders ?? {})) {
    list.push(parameter(name, description, example, required))
  }
  return list
}

const entityTags = String.raw`^\s*(?:\*|(?:W/)?"[!#-~]*"(?:\s*,\s*(?:W/)?"[!#-~]*")*)\s*$`
const bytes = { type: 'string', pattern: '^(?:0|[1-9][0-9]{0,14})$' } as const
const requestHeaderSchemas: Readonly<Record<string, Json>> = {
  'X-Request-Id': { type: 'string', minLength: 8, maxLength: 128, pattern: '^[A-Za-z0-9._-]*$' },
  'Idempotency-Key': { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]*$' },
  'If-None-Match': { type: 'string', pattern: entityTags },
  'If-Match': { type: 'string', pattern: entityTags },
  'Content-Digest': { type: 'string', maxLength: 1024, pattern: '(?:^|[ ,])sha-(?:256|512)=:[A-Za-z0-9+/]*={0,2}:' },
  'Tus-Resumable': { type: 'string', enum: ['1.0.0'] },
  'Upload-Length': bytes,
  'Upload-Offset': bytes,
  'Upload-Metadata': { type: 'string', minLength: 1, maxLength: 4096 },
  'Github-Public-Key-Identifier': { type: 'string', minLength: 1, maxLength: 200 },
  'Github-Public-Key-Signature': { type: 'string', pattern: '^[A-Za-z0-9+/]+={0,2}$' },
  'Upload-Checksum': { type: 'string', pattern: '^sha(?:1|256) [A-Za-z0-9+/]+={0,2}$' },
}

function parameter(name: string, description: string, example: string | undefined, required = false): Json {
  const schema = requestHeaderSchemas[name] ?? text
  return { name, in: 'header', required, description, schema, ...(example === undefined ? {} : { example }) }
}
