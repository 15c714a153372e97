import { z } from 'zod'

/** A closed list. The type URI is `/problems/<code with hyphens>` (RFC 9457 §3.1.1). */
export const problemTypes = {
  bad_request: { status: 400, title: 'The request is not valid' },
  non_canonical_path: { status: 400, title: 'The path is not in canonical form' },
  duplicate_header: { status: 400, title: 'A header that must occur once occurs more than once' },
  malformed_http: { status: 400, title: 'The request is not well-formed HTTP' },
  malformed_json: { status: 400, title: 'The body is not valid JSON' },
  tenant_required: { status: 400, title: 'The request does not name its tenant' },
  missing_credentials: { status: 401, title: 'Credentials are missing' },
  invalid_key: { status: 401, title: 'The API key is not valid' },
  key_expired: { status: 401, title: 'The API key has expired' },
  key_revoked: { status: 401, title: 'The API key has been revoked' },
  invalid_token: { status: 401, title: 'The access token is not valid' },
  person_inactive: { status: 401, title: 'The directory has ended this person’s access' },
  person_unknown: { status: 401, title: 'The directory does not know this person' },
  sign_in_required: { status: 401, title: 'You are not signed in' },
  unsigned_request: { status: 401, title: 'The request is not signed by the gateway' },
  insufficient_scope: { status: 403, title: 'The credentials lack a required scope' },
  role_required: { status: 403, title: 'This operation requires a role' },
  cross_site_request: { status: 403, title: 'The request did not come from the console' },
  filter_not_allowed: { status: 403, title: 'The resource cannot be filtered' },
  address_not_allowed: { status: 403, title: 'The API key does not allow this address' },
  tenant_not_granted: { status: 403, title: 'The access token does not grant this tenant' },
  tenant_suspended: { status: 403, title: 'The tenant is suspended' },
  not_found: { status: 404, title: 'The resource does not exist' },
  method_not_allowed: { status: 405, title: 'The resource does not support this method' },
  not_acceptable: { status: 406, title: 'The requested media type is not available' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  conflict: { status: 409, title: 'The request conflicts with the current state of the resource' },
  run_in_progress: { status: 409, title: 'A run of the connector is in progress' },
  diff_stale: { status: 409, title: 'The reviewed changes are out of date' },
  request_in_progress: { status: 409, title: 'The same request is still in progress' },
  invalid_transition: { status: 409, title: 'The state cannot change in this way' },
  procedure_locked: { status: 409, title: 'The test procedure is completed' },
  cursor_expired: { status: 410, title: 'The changes after the cursor are no longer stored' },
  precondition_failed: { status: 412, title: 'The resource has changed since it was read' },
  unsupported_protocol: { status: 412, title: 'The version of the protocol is not supported' },
  content_too_large: { status: 413, title: 'The body is too large' },
  // Not 5xx, because it is not our failure, and not 409, which tus clients retry.
  quota_exceeded: { status: 413, title: 'The tenant has reached its storage quota' },
  uri_too_long: { status: 414, title: 'The URL is too long' },
  unsupported_media_type: { status: 415, title: 'The media type of the body is not supported' },
  expectation_failed: { status: 417, title: 'The expectation cannot be met' },
  invalid_content: { status: 422, title: 'The body does not describe a valid resource' },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key was used for a different request' },
  digest_mismatch: { status: 422, title: 'The body does not match its digest' },
  not_applied: { status: 424, title: 'Not applied, because another item was rejected' },
  precondition_required: { status: 428, title: 'The request must be conditional' },
  checksum_mismatch: { status: 460, title: 'The chunk does not match its checksum' },
  too_many_requests: { status: 429, title: 'Too many requests' },
  header_fields_too_large: { status: 431, title: 'The header section is too large' },
  internal_error: { status: 500, title: 'An internal error occurred' },
  not_implemented: { status: 501, title: 'The operation is not supported' },
  bad_gateway: { status: 502, title: 'The service closed the connection before it responded' },
  service_unavailable: { status: 503, title: 'The service is temporarily unavailable' },
  log_contradicted: { status: 503, title: 'The remediation log contradicts its signed checkpoint' },
  overloaded: { status: 503, title: 'The service is overloaded' },
  auth_unavailable: { status: 503, title: 'The credentials cannot be verified at the moment' },
  sign_in_not_configured: { status: 503, title: 'Sign-in is not configured' },
  revocation_unconfirmed: { status: 503, title: 'The revocation is not yet confirmed everywhere' },
  gateway_timeout: { status: 504, title: 'The service took too long to respond' },
  insufficient_storage: { status: 507, title: 'There is not enough storage for the content' },
} as const satisfies Record<string, { status: number; title: string }>

export type ProblemCode = keyof typeof problemTypes

/** RFC 9457 §3. */
export const problemMediaType = 'application/problem+json'

export const inputErrorSchema = z.object({
  pointer: z
    .string()
    .optional()
    .meta({ description: 'JSON Pointer (RFC 6901) into the body; empty for the whole body' }),
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
    detail: z.string().optional().meta({ description: 'How to fix the request' }),
    code: z.string().meta({ description: 'The code of the problem type, for scripts' }),
    instance: z.string().meta({ description: 'The id of the request, as in X-Request-Id' }),
    errors: z.array(inputErrorSchema).optional(),
    required_scope: z.string().optional(),
    granted_scopes: z
      .array(z.string())
      .optional()
      .meta({ description: 'The scopes that the credentials have', examples: [['read:universe']] }),
    documentation: z
      .string()
      .optional()
      .meta({ description: 'The operation in the reference', examples: ['/docs#tag/findings/GET/api/v1/findings'] }),
    allowed: z.array(z.string()).optional(),
  })
  .meta({ id: 'Problem', description: 'Problem document (RFC 9457)' })
export type ProblemDocument = z.infer<typeof problemSchema>

export interface ProblemInput {
  readonly detail?: string | undefined
  readonly errors?: readonly InputError[] | undefined
  readonly required_scope?: string | undefined
  readonly granted_scopes?: readonly string[] | undefined
  readonly documentation?: string | undefined
  readonly allowed?: readonly string[] | undefined
}

export function problemUri(code: ProblemCode): string {
  return `/problems/${code.replaceAll('_', '-')}`
}

export function problemDocument(code: ProblemCode, requestId: string, input: ProblemInput = {}): ProblemDocument {
  const { status, title } = problemTypes[code]
  const detail = detailOf(input)
  return {
    type: problemUri(code),
    title,
    status,
    ...(detail === undefined ? {} : { detail }),
    code,
    instance: requestId,
    ...(input.errors === undefined ? {} : { errors: [...input.errors] }),
    ...(input.required_scope === undefined ? {} : { required_scope: input.required_scope }),
    ...(input.granted_scopes === undefined ? {} : { granted_scopes: [...input.granted_scopes] }),
    ...(input.documentation === undefined ? {} : { documentation: input.documentation }),
    ...(input.allowed === undefined ? {} : { allowed: [...input.allowed] }),
  }
}

const maxRepeated = 3

/** The detail of a problem: its own words, else those of its first errors. */
export function detailOf({ detail, errors = [] }: Pick<ProblemInput, 'detail' | 'errors'>): string | undefined {
  return detail ?? (errors.length === 0 ? undefined : sentencesOf(errors))
}

/** Says the first errors in sentences, and how many more there are. */
export function sentencesOf(errors: readonly InputError[]): string {
  const said = [...new Set(errors.slice(0, maxRepeated).map(sentenceOf))]
  const more = errors.length - maxRepeated
  const rest = more > 0 ? [`${more} more ${more === 1 ? 'error is' : 'errors are'} in \`errors\`.`] : []
  return [...said, ...rest].join(' ')
}

function sentenceOf({ pointer, parameter, detail }: InputError): string {
  return `${nameOf(pointer ?? '', parameter)} ${detail}${/[.?]$/.test(detail) ? '' : '.'}`
}

/** A member of the body has its name, one below it its JSON Pointer. */
function nameOf(pointer: string, parameter: string | undefined): string {
  if (parameter !== undefined) return parameter === '' ? 'The request' : `\`${parameter}\``
  if (pointer === '') return 'The body'
  const isMember = pointer.lastIndexOf('/') === 0 && !/^\/[0-9]+$/.test(pointer)
  return `\`${isMember ? pointer.slice(1) : pointer}\``
}
