import { z } from 'zod'
import type { ProblemCode } from './problem.ts'
import type { NamedScope, Role } from './scope.ts'

/** The gateway answers `gateway` routes itself. */
export const upstreams = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const
export type Upstream = (typeof upstreams)[number]

/**
 * Who may call a route: `public` ignores credentials; `any` needs a key or person; `scope` and `any-scope` include
 * people with a scope; `person` never includes keys, but always administrators.
 */
export type Access =
  /** A request counts as `cost` public requests of its address; default 1. */
  | { readonly kind: 'public'; readonly cost?: number }
  | { readonly kind: 'any' }
  | { readonly kind: 'scope'; readonly scope: NamedScope }
  | { readonly kind: 'any-scope'; readonly scopes: readonly NamedScope[] }
  /** Machines are service accounts of a provider. */
  | { readonly kind: 'person'; readonly role: Role; readonly acceptsMachines?: true }

/** The groups of operations, in the order of the reference. */
export const tags = {
  Access: 'Who the caller is, and this documentation.',
  'API keys': 'For people: generating, changing, finding and revoking keys, and the rules for them.',
  'Audit feed': 'For auditors: who did what in the tenant, in one order.',
  Findings: 'What auditors have found, from draft to closure.',
  Recommendations: 'What auditors recommend, and how management responds.',
  'Action plans': 'What will be done about a finding, by whom and by when.',
  'Remediation tracker log': 'What happened to each finding, in a log that shows tampering.',
  Exports: 'Findings and plans in the forms of other systems.',
  Changes: 'Everything that changed, in one order, for programs that keep a copy.',
  'Audit universe': 'What can be audited: entities, hierarchies, test procedures and people.',
  Evidence: 'Storing files that prove something, with signed receipts.',
  'Resumable uploads': 'Evidence in pieces, by the tus protocol 1.0.',
  'Evidence in custody': 'For people: reading, reviewing, releasing and purging stored evidence.',
  Sync: 'Connectors that read other systems, their runs, and pushes into the universe.',
  Webhooks: 'Signed requests to your own programs when something happens.',
  SCIM: 'Users and groups from identity providers (RFC 7644).',
} as const
export type Tag = keyof typeof tags

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

export interface Answer {
  readonly description: string
  readonly schema?: z.ZodType
  readonly mediaType?: string
  readonly alternatives?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  readonly withoutHeaders?: readonly ('ETag' | 'Location')[]
}

/** The gateway matches and authorizes with it, the service validates with it. */
export interface Route {
  /** `<area>.<operation>`; the OpenAPI operationId. */
  readonly id: string
  readonly method: Method
  /** A parameter is `:name` and never spans a `/`. */
  readonly path: string
  readonly upstream: Upstream | 'gateway'
  readonly access: Access
  readonly tag: Tag
  readonly summary: string
  readonly description: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  /** The JSON body. Without it, a route streams a body of its `bodyMediaTypes`. */
  readonly body?: z.ZodType
  /** All other texts of the JSON body are normalized to NFC (UAX #15). */
  readonly exactMembers?: readonly string[]
  /** RFC 7578. The service checks the parts as they arrive. */
  readonly form?: z.ZodObject
  /** Default with `body`: `application/json`. */
  readonly bodyMediaTypes?: readonly string[]
  /** In bytes; 0 if the route has no body. */
  readonly maxBodyBytes: number
  /** For the response headers, in milliseconds. */
  readonly answerWithinMs: number
  /** For bodies that arrive slowly: at most 270, default 60. */
  readonly assertionSeconds?: number
  readonly answers: Readonly<Record<number, Answer>>
  /** Headers beyond those of every route, with purpose and example. */
  readonly requestHeaders?: Readonly<
    Record<string, { readonly description: string; readonly example: string; readonly required?: boolean }>
  >
  /** Also of the gateway's rejections. */
  readonly onEveryAnswer?: Readonly<Record<string, { readonly description: string; readonly value: string }>>
  readonly csvColumns?: readonly string[]
  /** As tus 1.0 requires. */
  readonly acceptsMethodOverride?: true
  readonly problems: readonly ProblemCode[]
  /** Bodies and errors of SCIM 2.0; unknown members are ignored. */
  readonly dialect?: 'scim'
}

export type RouteInput = Omit<Route, 'maxBodyBytes' | 'answerWithinMs' | 'problems'> &
  Partial<Pick<Route, 'maxBodyBytes' | 'answerWithinMs' | 'problems'>>

export const defaultMaxBodyBytes = 1024 * 1024

/** Defaults: a body of 1 MiB if there is one, an answer within 30 s. */
export function defineRoute<const R extends RouteInput>(route: R): R & Omit<Route, keyof R> {
  const takesBody = route.body !== undefined || route.bodyMediaTypes !== undefined
  return { maxBodyBytes: takesBody ? defaultMaxBodyBytes : 0, answerWithinMs: 30_000, problems: [], ...route }
}

export function headersOnEveryAnswer({ onEveryAnswer = {} }: Pick<Route, 'onEveryAnswer'>): [string, string][] {
  return Object.entries(onEveryAnswer).map(([name, { value }]) => [name.toLowerCase(), value])
}

/** The detail for a resource that does not exist or is not the caller's: how its path names it. */
export function missingDetail({ path, params }: Pick<Route, 'path' | 'params'>): string | undefined {
  const name = /:([a-z_]+)(?!.*:)/.exec(path)?.[1]
  if (name === undefined) return undefined
  const schema: unknown = params?.shape[name]
  const [forms = ''] = ((schema instanceof z.ZodType ? schema.description : undefined) ?? '').split('. ', 1)
  const known = forms === '' ? 'an id as lists return it, a UUID' : `${forms.charAt(0).toLowerCase()}${forms.slice(1)}`
  return `Nothing in your tenant has this ${name}. Use ${known}.`
}

/** The parsed input of a handler. */
export interface RouteInputs<R extends Route> {
  readonly params: R['params'] extends z.ZodType ? z.output<R['params']> : Record<string, never>
  readonly query: R['query'] extends z.ZodType ? z.output<R['query']> : Record<string, never>
  readonly body: R['body'] extends z.ZodType ? z.output<R['body']> : undefined
}

/** The operation in the reference, relative to the API. */
export function referenceOf({ tag, method, path }: Pick<Route, 'tag' | 'method' | 'path'>): string {
  const group = tag.toLowerCase().replaceAll(' ', '-')
  return `/docs#tag/${group}/${method}${path.replaceAll(/:([a-z_]+)/g, '%7B$1%7D')}`
}
