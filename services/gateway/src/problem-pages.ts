import { type ProblemCode, problemTypes, problemUri } from '@postern/contracts'

export const remedies: Readonly<Record<ProblemCode, string>> = {
  bad_request: 'Correct the parameters that `errors` names. The reference lists what each operation takes.',
  non_canonical_path:
    'Send the path in its one canonical spelling: no dot segments, no empty segments, no backslashes or semicolons, and no percent-escapes of characters that need none.',
  duplicate_header: 'Send the header once.',
  malformed_http: 'The received bytes are not an HTTP/1.1 request (RFC 9112). Use a maintained HTTP client.',
  malformed_json:
    'Send the body as JSON (RFC 8259), in UTF-8. An object must not repeat a key, and a number must not need more digits than a double has (RFC 7493).',
  tenant_required: 'Name one of `allowed` in the header `postern-tenant`. `GET /api/v1/whoami` lists your tenants.',
  missing_credentials: 'Send `Authorization: ApiKey <key>`.',
  invalid_key:
    'Check that the key is complete and unaltered. If it is, ask the administrator of your tenant for a new one.',
  key_expired: 'Ask the administrator of your tenant for a new key.',
  key_revoked: 'The key will not work again. Ask the administrator of your tenant for a new one.',
  invalid_token: 'Sign in again to obtain a new access token. API keys go under the scheme ApiKey, not Bearer.',
  person_inactive:
    'Ask whoever maintains the directory of your organization. Access returns when you are active there.',
  person_unknown: 'Ask whoever maintains the directory of your organization to add you to it.',
  sign_in_required: 'Sign in to the console again.',
  unsigned_request: 'Send requests to the gateway; services do not take them directly.',
  insufficient_scope:
    'Use a key with the scope that `required_scope` names. `granted_scopes` lists the scopes of this one.',
  role_required: 'The operation is for signed-in people with a certain role. No API key can do it.',
  cross_site_request:
    'Only the pages of the console can make changes for a signed-in person. Reload the page and try again. Programs call the gateway with an API key.',
  filter_not_allowed: 'Send the request without `filter`.',
  address_not_allowed:
    'The key is limited to certain networks. Call from one of them, or ask an administrator to change the list.',
  tenant_not_granted:
    'Name one of `allowed` in the header `postern-tenant`, or sign in again after you were given access.',
  tenant_suspended:
    'All keys of the tenant are refused until the platform resumes it. The keys themselves are unchanged.',
  not_found: 'Check the path and the id. Another tenant’s resources get the same response as missing ones.',
  method_not_allowed: 'Use one of the methods in the Allow header.',
  not_acceptable: 'Accept application/json.',
  request_timeout: 'Send the request faster, or in smaller parts.',
  conflict: 'Read the resource again, decide whether your change still applies, and repeat it.',
  run_in_progress: 'Wait until the run has ended, or cancel it.',
  diff_stale: 'Run the connector again and review the new changes.',
  request_in_progress:
    'Wait as long as Retry-After says, then send the same request again. It returns the response of the first.',
  invalid_transition:
    'Choose one of the states (for a run: operations) that `allowed` lists, and provide what `errors` names as missing.',
  procedure_locked: 'Reopen the test procedure, or attach the evidence to another one.',
  cursor_expired:
    'Request `since=now` and store `Postern-Next-Since`, read the lists again, then continue with that `since`.',
  precondition_failed: 'Read the resource again and repeat the change with its current ETag.',
  unsupported_protocol: 'Use tus 1.0.0 for resumable uploads: send `Tus-Resumable: 1.0.0`.',
  content_too_large: 'Send less in one request.',
  uri_too_long: 'Shorten the URL, or use paging and filters.',
  unsupported_media_type: 'Send the body in a media type that the operation takes, without a content coding.',
  expectation_failed: 'Send no Expect header, or `100-continue`.',
  invalid_content: 'Correct the fields that `errors` points to.',
  idempotency_key_reused: 'Use a new Idempotency-Key for each request; repeat one only with exactly the same request.',
  digest_mismatch: 'The body was altered in transit, or the digest was computed over something else. Send it again.',
  not_applied: 'Correct the items that have another problem, and send all items again.',
  precondition_required: 'Send If-Match with the ETag of the resource as you read it.',
  checksum_mismatch: 'The chunk was altered in transit. Send it again from the same offset.',
  too_many_requests: 'Wait as long as Retry-After says.',
  header_fields_too_large: 'Send fewer or shorter headers.',
  internal_error: 'Report the `instance` to the operators of your Postern.',
  not_implemented: 'Use another operation. The reference lists those that exist.',
  bad_gateway: 'Check whether the operation happened before you repeat it.',
  service_unavailable: 'The request had no effect. Repeat it after Retry-After.',
  log_contradicted:
    'The request wrote no data. You can still read and export the log. Tell the operators of your Postern, who have been alerted. Repeating the request does not help until they have investigated.',
  overloaded: 'The request had no effect. Repeat it after Retry-After, with fewer requests at a time.',
  auth_unavailable: 'The gateway could not verify the credentials. Repeat after `Retry-After`.',
  sign_in_not_configured:
    'The operators have not configured an OpenID provider for the console. API keys still work at the gateway.',
  revocation_unconfirmed:
    'Do what `detail` says. You can safely repeat a revocation, or a change that narrows a key: the response comes when the change is enforced everywhere. Repeating a rotation without an `Idempotency-Key` can create a second key: look first for one whose `rotated_from` is the old key.',
  gateway_timeout: 'Check whether the operation happened before you repeat it.',
  quota_exceeded:
    'Purge evidence whose retention has ended, cancel abandoned resumable uploads, or ask the operators of your Postern for a larger quota.',
  insufficient_storage: 'Ask the operators of your Postern for more storage.',
}

export function problemPage(slug: string): string | undefined {
  const code = codes.find((known) => problemUri(known) === `/problems/${slug}`)
  if (code === undefined) return undefined
  const { status, title } = problemTypes[code]
  return (
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>${title}</title><body><h1>${title}</h1><p>HTTP status ${status}, code <code>${code}</code></p>` +
    `<p>${remedies[code].replaceAll(/`([^`]+)`/g, '<code>$1</code>').replaceAll('<key>', '&lt;key&gt;')}</p></body></html>`
  )
}

const codes = Object.keys(problemTypes).filter(isCode)

function isCode(text: string): text is ProblemCode {
  return text in problemTypes
}
