import { z } from 'zod'

/** The detail of a problem of which its errors say all. */
export const seeErrors = 'See `errors` for details.'

/**
 * Every problem type of the public API: code → HTTP status and title. The list is closed: a problem that is not here
 * cannot be answered. The type URI of a problem is `/problems/<code with hyphens>` (RFC 9457 §3.1.1).
 */
export const problemTypes = {
  bad_request: { status: 400, title: 'The request is not valid' },
  non_canonical_path: { status: 400, title: 'The path is not in canonical form' },
  duplicate_header: { status: 400, title: 'A header that must occur once occurs more than once' },
  malformed_http: { status: 400, title: 'The request is not well-formed HTTP' },
  malformed_json: { status: 400, title: 'The body is not valid JSON' },
  missing_credentials: { status: 401, title: 'Credentials are missing' },
  invalid_key: { status: 401, title: 'The API key is not valid' },
  key_expired: { status: 401, title: 'The API key has expired' },
  key_revoked: { status: 401, title: 'The API key has been revoked' },
  invalid_token: { status: 401, title: 'The access token is not valid' },
  sign_in_required: { status: 401, title: 'Nobody is signed in' },
  unsigned_request: { status: 401, title: 'The request is not signed by the gateway' },
  insufficient_scope: { status: 403, title: 'The credentials lack the scope that this operation needs' },
  role_required: { status: 403, title: 'This operation is for people with a certain role' },
  cross_site_request: { status: 403, title: 'The request does not come from the pages of the console' },
  filter_not_allowed: { status: 403, title: 'The resource cannot be filtered' },
  address_not_allowed: { status: 403, title: 'The API key may not be used from this address' },
  tenant_suspended: { status: 403, title: 'The tenant is suspended' },
  not_found: { status: 404, title: 'There is no such resource' },
  method_not_allowed: { status: 405, title: 'The resource does not support this method' },
  not_acceptable: { status: 406, title: 'No representation is acceptable to the client' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  conflict: { status: 409, title: 'The request conflicts with the state of the resource' },
  run_in_progress: { status: 409, title: 'A run of the connector is under way' },
  diff_stale: { status: 409, title: 'The changes would be others by now' },
  request_in_progress: { status: 409, title: 'The same request is still being carried out' },
  invalid_transition: { status: 409, title: 'The state cannot change in this way' },
  procedure_locked: { status: 409, title: 'The test procedure is completed' },
  cursor_expired: { status: 410, title: 'The changes behind the cursor are no longer kept' },
  precondition_failed: { status: 412, title: 'The resource has changed since it was read' },
  unsupported_protocol: { status: 412, title: 'The version of the protocol is not supported' },
  content_too_large: { status: 413, title: 'The body is too large' },
  // No failure of ours, which 5xx would count as; and 409 is sent again by clients of tus.
  quota_exceeded: { status: 413, title: 'The tenant keeps as much as it may' },
  uri_too_long: { status: 414, title: 'The URL is too long' },
  unsupported_media_type: { status: 415, title: 'The media type of the body is not supported' },
  expectation_failed: { status: 417, title: 'The expectation cannot be met' },
  invalid_content: { status: 422, title: 'The body does not describe a valid resource' },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key was used for another request' },
  digest_mismatch: { status: 422, title: 'The body does not match its digest' },
  not_applied: { status: 424, title: 'Not applied, because another item was refused' },
  precondition_required: { status: 428, title: 'The request must be conditional' },
  checksum_mismatch: { status: 460, title: 'The chunk does not match its checksum' },
  too_many_requests: { status: 429, title: 'Too many requests' },
  header_fields_too_large: { status: 431, title: 'The header section is too large' },
  internal_error: { status: 500, title: 'Something went wrong inside Postern' },
  not_implemented: { status: 501, title: 'The operation is not supported' },
  bad_gateway: { status: 502, title: 'The service behind the gateway broke off' },
  service_unavailable: { status: 503, title: 'The service cannot answer now' },
  log_contradicted: { status: 503, title: 'The remediation log is not what was signed' },
  overloaded: { status: 503, title: 'More is asked of the service than it can do now' },
  auth_unavailable: { status: 503, title: 'The credentials cannot be checked now' },
  sign_in_not_configured: { status: 503, title: 'Nobody can sign in here yet' },
  revocation_unconfirmed: { status: 503, title: 'The revocation is not yet confirmed everywhere' },
  gateway_timeout: { status: 504, title: 'The service behind the gateway took too long' },
  insufficient_storage: { status: 507, title: 'There is no room to store the content' },
} as const satisfies Record<string, { status: number; title: string }>

export type ProblemCode = keyof typeof problemTypes

/** The media type of every problem document (RFC 9457 §3). */
export const problemMediaType = 'application/problem+json'

/** One thing that is wrong with the input: where (JSON Pointer into the body, or a parameter's name) and what to mend. */
export const inputErrorSchema = z.object({
  pointer: z
    .string()
    .optional()
    .meta({ description: 'JSON Pointer (RFC 6901) into the body; empty: the body as a whole' }),
  parameter: z.string().optional().meta({ description: 'Name of the path or query parameter, or of the header' }),
  code: z.string(),
  detail: z.string(),
})
export type InputError = z.infer<typeof inputErrorSchema>

export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'Stable URI of the problem type; a page explains it' }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().optional().meta({ description: 'What to mend' }),
    code: z.string().meta({ description: 'The problem type as a word for scripts' }),
    instance: z.string().meta({ description: 'The id of the request, as in X-Request-Id' }),
    errors: z.array(inputErrorSchema).optional(),
    required_scope: z.string().optional(),
    allowed: z.array(z.string()).optional(),
  })
  .meta({ id: 'Problem', description: 'Problem document (RFC 9457)' })
export type ProblemDocument = z.infer<typeof problemSchema>

export interface ProblemInput {
  /** For the caller: what to mend. */
  readonly detail?: string | undefined
  readonly errors?: readonly InputError[] | undefined
  readonly required_scope?: string | undefined
  readonly allowed?: readonly string[] | undefined
}

/** The URI of a problem type, relative to the API's origin. */
export function problemUri(code: ProblemCode): string {
  return `/problems/${code.replaceAll('_', '-')}`
}

/** Builds the problem document of one answer. `requestId` becomes `instance`. */
export function problemDocument(code: ProblemCode, requestId: string, input: ProblemInput = {}): ProblemDocument {
  const { status, title } = problemTypes[code]
  return {
    type: problemUri(code),
    title,
    status,
    ...(input.detail === undefined ? {} : { detail: input.detail }),
    code,
    instance: requestId,
    ...(input.errors === undefined ? {} : { errors: [...input.errors] }),
    ...(input.required_scope === undefined ? {} : { required_scope: input.required_scope }),
    ...(input.allowed === undefined ? {} : { allowed: [...input.allowed] }),
  }
}
