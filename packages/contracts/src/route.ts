import type { z } from 'zod'
import type { ProblemCode } from './problem.ts'
import type { NamedScope, Role } from './scope.ts'

/** The services that a route can be forwarded to. The gateway answers `gateway` routes itself. */
export const upstreams = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const
export type Upstream = (typeof upstreams)[number]

/**
 * Who may call a route.
 * - `public`: anyone; credentials are ignored.
 * - `any`: any active key or signed-in person.
 * - `scope`: keys and people with the scope.
 * - `any-scope`: keys and people with one of the scopes, which also decide what the response contains.
 * - `person`: people with the role, and administrators; never an API key.
 */
export type Access =
  | { readonly kind: 'public' }
  | { readonly kind: 'any' }
  | { readonly kind: 'scope'; readonly scope: NamedScope }
  | { readonly kind: 'any-scope'; readonly scopes: readonly NamedScope[] }
  | { readonly kind: 'person'; readonly role: Role }

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

export interface Answer {
  readonly description: string
  readonly schema?: z.ZodType
  readonly mediaType?: string
  /** Other media types of the same body, selected with `Accept`. */
  readonly alternatives?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  /** Headers that this response lacks, although responses with this status usually have them. */
  readonly withoutHeaders?: readonly ('ETag' | 'Location')[]
}

/** One route of the public API. The gateway matches and authorizes with it, the service validates with it. */
export interface Route {
  /** Stable name, `<area>.<operation>`; the OpenAPI operationId. */
  readonly id: string
  readonly method: Method
  /** Path pattern from the origin; a parameter is `:name` and never spans a `/`. */
  readonly path: string
  readonly upstream: Upstream | 'gateway'
  readonly access: Access
  readonly tag: string
  readonly summary: string
  readonly description?: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  /** The JSON body. Without it, a route streams a body of its `bodyMediaTypes`, if it has any. */
  readonly body?: z.ZodType
  /** Members of the JSON body that are not normalized. All other texts are normalized to NFC (UAX #15). */
  readonly exactMembers?: readonly string[]
  /** Media types of the body. Default with `body`: `application/json`. */
  readonly bodyMediaTypes?: readonly string[]
  /** The largest body that the gateway accepts, in bytes; 0 if the route has no body. */
  readonly maxBodyBytes: number
  /** How long the gateway waits for the response headers, in milliseconds. */
  readonly answerWithinMs: number
  /**
   * The lifetime of the tenant assertion in seconds, for bodies that can take long to arrive. At most 270, default 60.
   */
  readonly assertionSeconds?: number
  readonly answers: Readonly<Record<number, Answer>>
  /** Headers that the request can carry beyond those of every route: their name, what they are for, and an example. */
  readonly requestHeaders?: Readonly<
    Record<string, { readonly description: string; readonly example: string; readonly required?: boolean }>
  >
  /** Headers that every answer has, refusals of the gateway too, but of another method, once it has read the path: their name, what they are for, and their value. */
  readonly onEveryAnswer?: Readonly<Record<string, { readonly description: string; readonly value: string }>>
  /** Of a list: the columns of its CSV in their order. Without it, they follow the members of an item. */
  readonly csvColumns?: readonly string[]
  /** Whether a POST can reach this route by naming its method in `X-HTTP-Method-Override`, as tus 1.0 requires. */
  readonly acceptsMethodOverride?: true
  /** Problems beyond those that every route can give. */
  readonly problems: readonly ProblemCode[]
  /** If set, bodies and errors are those of SCIM 2.0, and unknown members are ignored. */
  readonly dialect?: 'scim'
}

export type RouteInput = Omit<Route, 'maxBodyBytes' | 'answerWithinMs' | 'problems'> &
  Partial<Pick<Route, 'maxBodyBytes' | 'answerWithinMs' | 'problems'>>

/** Default limit of a JSON body: 1 MiB. */
export const defaultMaxBodyBytes = 1024 * 1024

/** Completes a route with the defaults: 1 MiB where a body is taken, 0 otherwise; an answer within 30 s. */
export function defineRoute<const R extends RouteInput>(route: R): R & Omit<Route, keyof R> {
  const takesBody = route.body !== undefined || route.bodyMediaTypes !== undefined
  return { maxBodyBytes: takesBody ? defaultMaxBodyBytes : 0, answerWithinMs: 30_000, problems: [], ...route }
}

/** Names and values of `onEveryAnswer`. */
export function headersOnEveryAnswer({ onEveryAnswer = {} }: Pick<Route, 'onEveryAnswer'>): [string, string][] {
  return Object.entries(onEveryAnswer).map(([name, { value }]) => [name.toLowerCase(), value])
}

/** The parsed input of a route: what a handler receives. */
export interface RouteInputs<R extends Route> {
  readonly params: R['params'] extends z.ZodType ? z.output<R['params']> : Record<string, never>
  readonly query: R['query'] extends z.ZodType ? z.output<R['query']> : Record<string, never>
  readonly body: R['body'] extends z.ZodType ? z.output<R['body']> : undefined
}
