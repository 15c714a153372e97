import type { z } from 'zod'
import type { ProblemCode } from './problem.ts'
import type { NamedScope, Role } from './scope.ts'

/** The parts of Postern that a route can lead to; `gateway` answers itself. */
export const upstreams = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const
export type Upstream = (typeof upstreams)[number]

/**
 * Who may call a route.
 * - `public`: anyone, no credential is looked at.
 * - `any`: any active key or signed-in person.
 * - `scope`: keys and people that hold the scope.
 * - `any-scope`: keys and people that hold one of the scopes; what they get of the answer depends on which.
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
  /** Other media types under which the same body can be asked for with `Accept`. */
  readonly alternatives?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  /** Headers that an answer with this status usually has, and this one does not. */
  readonly withoutHeaders?: readonly ('ETag' | 'Location')[]
}

/** One route of the public API: the gateway matches and authorizes by it, the service validates by it. */
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
  /** The JSON body. A route without it takes a body of its `bodyMediaTypes` as a stream, and where it has none, no body. */
  readonly body?: z.ZodType
  /** Members of the JSON body whose texts are kept as they are sent. All other texts are normalized to NFC (UAX #15). */
  readonly exactMembers?: readonly string[]
  /** Media types of the body; `application/json` where `body` is given and this is not. */
  readonly bodyMediaTypes?: readonly string[]
  /** The largest body that the gateway lets through, in bytes; 0 where the route takes none. */
  readonly maxBodyBytes: number
  /** How long the gateway waits for the head of the answer, in milliseconds. */
  readonly answerWithinMs: number
  /**
   * How long PostgreSQL shall believe the gateway that the request is for its tenant, in seconds: for a body that may
   * take longer to arrive than a usual request lives. At most 270; where nothing is said, 60.
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
  /** Where it is set, bodies and errors are those of SCIM 2.0, and what a body holds beyond its schema is left out. */
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
