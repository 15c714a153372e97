import { mediaTypesOf } from './media-types.ts'
import type { ProblemCode } from './problem.ts'
import type { Route } from './route.ts'

const ofEveryRoute = [
  'bad_request',
  'non_canonical_path',
  'malformed_http',
  'duplicate_header',
  'not_acceptable',
  'request_timeout',
  'uri_too_long',
  'too_many_requests',
  'header_fields_too_large',
  'internal_error',
  'bad_gateway',
  'service_unavailable',
  'overloaded',
  'gateway_timeout',
] as const satisfies readonly ProblemCode[]

const ofCredentials = [
  'missing_credentials',
  'invalid_key',
  'key_expired',
  'key_revoked',
  'invalid_token',
  'person_inactive',
  'person_unknown',
  'address_not_allowed',
  'tenant_required',
  'tenant_not_granted',
  'tenant_suspended',
  'auth_unavailable',
] as const satisfies readonly ProblemCode[]

/** With POSTERN_CHECK_ANSWERS, a service that returns another problem fails. */
export function problemsOf(route: Route): ReadonlySet<ProblemCode> {
  const codes = new Set<ProblemCode>([...ofEveryRoute, ...route.problems])
  // A response without a body suits every `Accept`.
  if (mediaTypesOf(route).length === 0) codes.delete('not_acceptable')
  if (route.access.kind !== 'public') for (const code of ofCredentials) codes.add(code)
  if (route.access.kind === 'scope' || route.access.kind === 'any-scope') codes.add('insufficient_scope')
  if (route.access.kind === 'person') codes.add('role_required')
  // An invalid path parameter addresses nothing.
  if (route.params !== undefined) codes.add('not_found')
  if (route.body !== undefined) {
    codes.add('malformed_json').add('invalid_content').add('content_too_large').add('unsupported_media_type')
    codes.add('digest_mismatch')
  }
  if (route.method !== 'GET' && route.method !== 'HEAD' && route.method !== 'OPTIONS') codes.add('insufficient_storage')
  // A POST may name a method that the path lacks.
  if (route.method === 'POST' && route.acceptsMethodOverride === true) codes.add('method_not_allowed')
  if (isRepeatable(route)) codes.add('request_in_progress').add('idempotency_key_reused')
  return codes
}

export function isRepeatable(route: Route): boolean {
  // Without a tenant there is nowhere to store a response.
  return route.method === 'POST' && route.access.kind !== 'public'
}
