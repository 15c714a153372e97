import { answerHeaderNamesOf } from './openapi-headers.ts'
import type { Route } from './route.ts'
import { routeTable } from './route-table.ts'

/** Not listed in route contracts. */
const commonAnswerHeaders = [
  'allow',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-security-policy',
  'content-type',
  'etag',
  'link',
  'location',
  'retry-after',
  'vary',
  'x-accel-buffering',
  'x-content-type-options',
] as const

const gatewayAnswerHeaders = [
  'api-version',
  'ratelimit',
  'ratelimit-policy',
  'x-key-expires-at',
  'x-request-id',
] as const

/** Lower-case names. The gateway removes all others. */
export function passedAnswerHeaders(route: Route): ReadonlySet<string> {
  const names = new Set<string>([...commonAnswerHeaders, ...answerHeaderNamesOf(route)])
  for (const name of [...gatewayAnswerHeaders, 'www-authenticate']) names.delete(name)
  return names
}

/** Lower-case names, except the challenge of a 401. */
export const publicAnswerHeaders: ReadonlySet<string> = new Set([
  ...routeTable.flatMap((route) => [...passedAnswerHeaders(route)]),
  ...gatewayAnswerHeaders,
])

/** Lower-case names, without signed and platform headers. */
export const passedRequestHeaders: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-disposition',
  'content-encoding',
  'content-language',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'prefer',
  'range',
  'repr-digest',
  'traceparent',
  'tracestate',
  'upload-concat',
  'upload-defer-length',
  'user-agent',
  ...routeTable.flatMap(({ requestHeaders = {} }) => Object.keys(requestHeaders).map((name) => name.toLowerCase())),
])
