import { type Method, type Route, type RouteInputs, isRepeatable, itemSchemaOf } from '@postern/contracts'
import { z } from 'zod'
import type { CallerKind } from './guard.ts'
import type { IdempotencyStore, AnswerKeeper } from './idempotency.ts'
import { type App, type Registration, registerRoute } from './register-route.ts'
import type { RequestInfo } from './request-info.ts'
import type { Current } from './sent-back.ts'
import type { StreamedAnswer } from './streamed-answer.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly idempotencyStore?: IdempotencyStore
  }
}

export type ContractInput<R extends Route> = RouteInputs<R> & RequestInfo & AnswerKeeper

export type AnswerBody<R extends Route> = [Bodies<R>] extends [never] ? undefined : Bodies<R>
type Bodies<R extends Route> = {
  [S in StatusWithBody]: R['answers'][S] extends { readonly schema: infer Z extends z.ZodType } ? z.output<Z> : never
}[StatusWithBody]
type StatusWithBody = 200 | 201 | 202

/** Call it before adding POST routes. */
export function enableIdempotency(app: App, store: IdempotencyStore): void {
  app.decorate('idempotencyStore', store)
}

/** Invalid parameters and JSON get 400, invalid resources 422. */
export function contractRoute<const R extends Route>(
  app: App,
  route: R,
  handler: (input: ContractInput<R>) => Promise<AnswerBody<R> | StreamedAnswer>,
): void {
  if (itemSchemaOf(route) !== undefined) throw new Error(`${route.id} is a list: register it with contractList`)
  registerContract(app, route, handler)
}

/**
 * A PATCH that also accepts a whole resource that the caller has read. Members equal to the stored ones, and `computed`
 * members, are ignored. `read` returns undefined if there is no resource.
 */
export function patchRoute<const R extends Route>(
  app: App,
  route: R,
  current: {
    readonly computed?: readonly string[]
    readonly read: (input: Omit<ContractInput<R>, 'body' | keyof AnswerKeeper>) => Promise<Current | undefined>
  },
  handler: (input: ContractInput<R>) => Promise<AnswerBody<R>>,
): void {
  registerContract(app, route, handler, { current: current as Registration['current'] })
}

/** `complete` runs after the commit with the handler's result, or a stored one. */
export function completedRoute<const R extends Route>(
  app: App,
  route: R,
  handler: (input: ContractInput<R>) => Promise<unknown>,
  complete: (written: unknown, request: Pick<RequestInfo, 'context'>) => Promise<AnswerBody<R>>,
): void {
  registerContract(app, route, handler, { complete })
}

export function registerContract<const R extends Route>(
  app: App,
  route: R,
  handler: (input: ContractInput<R>) => Promise<unknown>,
  special: Pick<Registration, 'complete' | 'current'> = {},
): void {
  const { upstream } = route
  const store = isRepeatable(route) ? app.idempotencyStore : undefined
  if (isRepeatable(route) && store === undefined) {
    throw new Error(`${route.id} needs enableIdempotency: every POST with credentials can be repeated`)
  }
  const headers = Object.keys(route.requestHeaders ?? {}).map((name) => name.toLowerCase())
  registerRoute(app, {
    ...(store === undefined ? {} : { repeatable: { store, routeId: route.id, headers } }),
    method: route.method,
    path: route.path,
    guard: { signedBy: isForOperators(route) ? [upstream, 'operator'] : [upstream], access: route.access },
    params: route.params,
    query: route.query ?? z.strictObject({}),
    body: route.body,
    mediaTypes: route.bodyMediaTypes ?? ['application/json'],
    isStreamed: route.body === undefined && route.bodyMediaTypes !== undefined,
    maxBodyBytes: route.maxBodyBytes,
    success: lowestSuccess(route),
    contract: route,
    ...special,
    handler: handler as Registration['handler'],
  })
}

function isForOperators({ upstream, access }: Route): boolean {
  return upstream === 'keys' || (upstream === 'sync' && access.kind === 'person')
}

export interface InternalRoute {
  readonly method: Method
  readonly path: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly maxBodyBytes?: number
  readonly signedBy: readonly string[]
  readonly callers: readonly CallerKind[]
  readonly isOurJson?: boolean
}

/** Registers a route that the gateway does not forward to. */
export function internalRoute<const R extends InternalRoute>(
  app: App,
  route: R,
  handler: (
    input: {
      readonly params: R['params'] extends z.ZodType ? z.output<R['params']> : Record<string, never>
      readonly query: R['query'] extends z.ZodType ? z.output<R['query']> : Record<string, never>
      readonly body: R['body'] extends z.ZodType ? z.output<R['body']> : undefined
    } & RequestInfo,
  ) => Promise<unknown>,
): void {
  registerRoute(app, {
    method: route.method,
    path: route.path,
    guard: { signedBy: route.signedBy, access: { kind: 'internal', callers: route.callers } },
    isOurJson: route.isOurJson ?? false,
    params: route.params,
    query: route.query ?? z.strictObject({}),
    body: route.body,
    mediaTypes: ['application/json'],
    isStreamed: false,
    maxBodyBytes: route.maxBodyBytes ?? 1024 * 1024,
    success: 200,
    handler: handler as Registration['handler'],
  })
}

function lowestSuccess(route: Route): number {
  const codes = Object.keys(route.answers).map(Number)
  return Math.min(...codes.filter((code) => code >= 200 && code < 300))
}
