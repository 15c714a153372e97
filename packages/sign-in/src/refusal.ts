/** Why a token signs nobody in. The codes are API: the runbook has an entry for each. */
export const signInCodes = [
  'not_a_jwt',
  'token_too_long',
  'algorithm_not_accepted',
  'unknown_key',
  'signature_invalid',
  'token_expired',
  'token_not_yet_valid',
  'expiry_invalid',
  'other_issuer',
  'other_audience',
  'wrong_token_kind',
  'subject_invalid',
  'machine_refused',
  'tenant_claim_absent',
  'tenant_ambiguous',
  'tenant_unknown',
  'too_many_tenants',
  'roles_claim_absent',
  'no_mapped_role',
  'userinfo_token_absent',
  'userinfo_refused',
  'userinfo_mismatch',
  'directory_claim_absent',
  'person_inactive',
  'person_unknown',
  // Of the console's exchange with the provider:
  'provider_error',
  'client_rejected',
  'code_rejected',
  'id_token_invalid',
] as const
export type SignInCode = (typeof signInCodes)[number]

/** For operators. Holds no token and no secret; values are shortened. */
export interface SignInRefusal {
  readonly code: SignInCode
  readonly read?: readonly string[]
  readonly found?: string
  readonly wanted?: string
  /** The mapped name that is nearest to what was found. */
  readonly nearest?: string
}

const maxCharacters = 160

export function shorten(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > maxCharacters ? `${text.slice(0, maxCharacters).toWellFormed()}…` : text
}

export function refusalFields({ code, ...fields }: SignInRefusal): Record<string, unknown> {
  return { code, ...fields, advice: advice[code] }
}

/** One plain sentence about the cause, and one about the fix. */
export function explainRefusal(refusal: SignInRefusal): string {
  const { code, read = [], found, wanted, nearest } = refusal
  const from = read.length === 0 ? '' : ` (read from ${read.join(', ')})`
  const values = [
    ...(found === undefined ? [] : [`found ${found}`]),
    ...(wanted === undefined ? [] : [`wanted ${wanted}`]),
    ...(nearest === undefined ? [] : [`the nearest mapped name is ${nearest}`]),
  ]
  return `${causes[code]}${from}${values.length === 0 ? '' : `: ${values.join(', ')}`}. ${advice[code]}`
}

/** The sentence about the cause, and the one about the fix. */
export function describeCode(code: SignInCode): { readonly cause: string; readonly advice: string } {
  return { cause: causes[code], advice: advice[code] }
}

const causes: Readonly<Record<SignInCode, string>> = {
  not_a_jwt: 'The token is not a signed JWT',
  token_too_long: 'The token is longer than 8192 characters',
  algorithm_not_accepted: 'The token is signed with another algorithm',
  unknown_key: 'The provider does not publish the key that signed the token',
  signature_invalid: 'The signature of the token is invalid',
  token_expired: 'The token has expired',
  token_not_yet_valid: 'The token is not valid yet',
  expiry_invalid: 'The token has no usable expiry',
  other_issuer: 'The token is of another issuer',
  other_audience: 'The token is for another audience',
  wrong_token_kind: 'The token is of another kind',
  subject_invalid: 'The token has no usable subject',
  machine_refused: 'The token belongs to a service account',
  tenant_claim_absent: 'The token names no tenant',
  tenant_ambiguous: 'The token names several tenants',
  tenant_unknown: 'The tenant of the token is unknown',
  too_many_tenants: 'The token names too many tenants',
  roles_claim_absent: 'The token has no roles',
  no_mapped_role: 'None of the roles in the token is mapped',
  userinfo_token_absent: 'The ID token came without its access token',
  userinfo_refused: 'The userinfo endpoint of the provider refused the access token',
  userinfo_mismatch: 'The ID token does not belong to the access token or to the userinfo answer',
  directory_claim_absent: 'The token does not say who the person is in the directory',
  person_inactive: 'The directory has deactivated or deleted the person',
  person_unknown: 'The person is not in the directory',
  provider_error: 'The provider answered with an error',
  client_rejected: 'The provider rejected the client',
  code_rejected: 'The provider rejected the code of the sign-in',
  id_token_invalid: 'The ID token is not for this sign-in',
}

const advice: Readonly<Record<SignInCode, string>> = {
  not_a_jwt: 'Configure the provider to issue JWT access tokens for Postern, or set `read: id_token`.',
  token_too_long: 'Configure the provider to leave out claims, such as groups that Postern does not need.',
  algorithm_not_accepted: 'Configure the provider to sign with a key pair, such as RS256 or ES256.',
  unknown_key: 'Compare `issuer` with the provider that issued the token. After a key rotation, wait five seconds.',
  signature_invalid: 'Compare `issuer` with the provider that issued the token.',
  token_expired: 'If the token is new, correct the clocks of the provider and of this machine.',
  token_not_yet_valid: 'Correct the clocks of the provider and of this machine.',
  expiry_invalid: 'Configure the provider to set `exp` in seconds.',
  other_issuer: 'Set `issuer` exactly to the `iss` of the token, with or without its final slash.',
  other_audience: 'Add an audience to the client at the provider, or change `audience`.',
  wrong_token_kind: 'Send the kind of token that `read` names, or change `read`.',
  subject_invalid: 'Point `subject` to a claim with a stable text of at most 255 characters.',
  machine_refused: 'Use an API key for data. To let it administer keys, add its client to `machines.clients`.',
  tenant_claim_absent:
    'Configure the provider to add the claim to this token, change `tenant.from`, or set `tenant.otherwise`.',
  tenant_ambiguous: 'Configure the provider so that the claim names one tenant.',
  too_many_tenants: 'Configure the provider to leave out groups that this person does not need.',
  tenant_unknown: 'Add the value to `tenant.map`, or put the id or slug of a tenant into the claim.',
  roles_claim_absent: 'Configure the provider to add the claim to this token, or change `roles.from`.',
  no_mapped_role: 'Add the name to `roles.map`, exactly as found.',
  userinfo_token_absent: 'With `read: userinfo`, send the ID token, `~` and the access token as one bearer token.',
  userinfo_refused: 'Request an access token for userinfo: leave out `resource` and an `audience` of another API.',
  userinfo_mismatch: 'Send the ID token and the access token from the same answer of the provider.',
  directory_claim_absent:
    'Configure the provider to add the claim to this token, or change `directory.match`. An address must be verified.',
  person_inactive: 'Activate the person in the directory, or in the source of an authoritative connector.',
  person_unknown: 'Add the person by SCIM or an authoritative connector, or remove `directory.required`.',
  provider_error: 'Look up the error in the log and the documentation of the provider.',
  client_rejected: 'Compare `client_id` and the client secret with the client at the provider.',
  code_rejected: 'Compare the redirect address with the client at the provider, then sign in again.',
  id_token_invalid: 'Compare `issuer` and `client_id` with the provider, and the clocks of both machines.',
}
