import { type Access, type NamedScope, type Role, type Route, namedScopes, opensRole, roles } from '@postern/contracts'
import { type TenantContext, type Verifier, parseAssertion } from '@postern/signed-context'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter, type Registry } from '@prometheus-io/client'
import type { Logger } from './logger.ts'
import { problem } from './problem.ts'
import type { RequestContext } from './tenant-shares.ts'

export type CallerKind = TenantContext['kind']

export interface Guard {
  readonly signedBy: readonly string[]
  readonly access: Access | { readonly kind: 'internal'; readonly callers: readonly CallerKind[] }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A route without a rule cannot be called. `open` is only for health and metrics. */
    readonly guard?: Guard | 'open'
    readonly contract?: Route
  }
  interface FastifyRequest {
    tenantContext: RequestContext | undefined
  }
}

export function guardRoutes(
  app: FastifyInstance,
  verifiers: ReadonlyMap<string, Verifier>,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Registry },
): void {
  const refusals = new Counter({
    name: 'postern_signature_refusals_total',
    help: 'Requests without a valid signature',
    registers: [metrics],
  })
  app.decorateRequest('tenantContext', undefined)
  app.addHook('onRequest', async (request) => {
    const { guard } = request.routeOptions.config
    if (request.is404 || guard === 'open') return
    if (guard === undefined) throw problem('not_found')
    const context = verify(request, guard, verifiers, logger)
    if (context === undefined) {
      refusals.inc()
      throw problem('unsigned_request', {
        detail: 'Send the request to the gateway. This service accepts only signed requests.',
      })
    }
    request.tenantContext = context
    assertAccess(guard.access, request.tenantContext)
  })
  app.addHook('preHandler', async ({ tenantContext }) => {
    if (tenantContext !== undefined) assertInTime(tenantContext)
  })
}

function verify(
  request: FastifyRequest,
  guard: Guard,
  verifiers: ReadonlyMap<string, Verifier>,
  logger: Logger,
): TenantContext | undefined {
  const { method, url: target, rawHeaders } = request.raw
  const reasons: string[] = []
  for (const name of guard.signedBy) {
    const result = verifiers
      .get(name)
      ?.verify({ method: method ?? '', target: target ?? '', headers: rawHeaders }, Date.now())
    if (result?.ok === true) return result.context
    if (result !== undefined) reasons.push(`${name}: ${result.reason}`)
  }
  logger.warn({ event: 'signature_refused', request_id: request.id, reasons })
  return undefined
}

function assertAccess(access: Guard['access'], caller: TenantContext): void {
  switch (access.kind) {
    case 'public':
      return
    case 'any':
      if (caller.kind === 'api_key' || caller.kind === 'user' || caller.kind === 'machine') return
      break
    case 'scope':
      if (caller.scopes.includes(access.scope)) return
      throw problem('insufficient_scope', scopeNeeded(access.scope, caller.scopes))
    case 'any-scope':
      if (access.scopes.some((scope) => caller.scopes.includes(scope))) return
      throw problem('insufficient_scope', oneScopeNeeded(access.scopes, caller.scopes))
    case 'person':
      if (caller.kind === 'operator') return
      if (caller.kind === 'user' || (caller.kind === 'machine' && access.acceptsMachines === true)) {
        if (opensRole(caller.roles, access.role)) return
      }
      throw problem('role_required', roleNeeded(access.role))
    case 'internal':
      if (access.callers.includes(caller.kind)) return
      break
    default:
      access satisfies never
  }
  throw problem('unsigned_request')
}

/** The assertion may have expired while the body arrived. */
function assertInTime({ assertion }: TenantContext): void {
  const expiresAt = parseAssertion(assertion)?.expiresAt
  if (expiresAt === undefined || expiresAt * 1000 > Date.now()) return
  throw problem('request_timeout', {
    detail: 'The body arrived too slowly. The request had no effect; send it faster, or in smaller parts.',
  })
}

interface MissingScope {
  readonly detail: string
  readonly granted_scopes: readonly string[]
}

export function scopeNeeded(
  scope: NamedScope,
  granted: readonly string[],
): MissingScope & { readonly required_scope: string } {
  return {
    detail: `This operation needs the scope ${scope}. ${grantedInWords(granted)}`,
    required_scope: scope,
    granted_scopes: granted,
  }
}

export function oneScopeNeeded(
  scopes: readonly NamedScope[],
  granted: readonly string[],
): MissingScope & { readonly allowed: readonly string[] } {
  return {
    detail: `This operation needs one of the scopes ${scopes.join(', ')}. ${grantedInWords(granted)}`,
    allowed: scopes,
    granted_scopes: granted,
  }
}

function grantedInWords(granted: readonly string[]): string {
  return granted.length === 0 ? 'The credentials have no scopes.' : `The credentials have ${granted.join(', ')}.`
}

export function roleNeeded(role: Role): { detail: string } {
  const named = role === 'admin' ? role : `${role} or admin`
  return { detail: `This operation is for signed-in people with the role ${named}. An API key cannot do it.` }
}

export function knownScopes(context: TenantContext): readonly NamedScope[] {
  return namedScopes.filter((scope) => context.scopes.includes(scope))
}

export function knownRoles(context: TenantContext): readonly Role[] {
  return roles.filter((role) => context.roles.includes(role))
}
