/** Clients name a tenant in it. */
export const tenantHeader = 'postern-tenant'
/** The console sends it to `whoami` when a person signs in, so that the audit feed has it. */
export const signInHeader = 'postern-sign-in'

/** The gateway removes these headers from client requests in every spelling. */
export const contextHeader = 'postern-context'
export const assertionHeader = 'postern-assertion'
export const requestIdHeader = 'x-request-id'
export const signatureInputHeader = 'signature-input'
export const signatureHeader = 'signature'

/** Folded names are in lower case, with `_` read as `-`. */
export const strippedHeaderPrefixes = [
  'postern-',
  'x-postern-',
  'x-tenant',
  'tenant-',
  'x-forwarded-',
  'x-real-',
  'x-original-',
  'x-rewrite-',
  'x-user',
  'x-auth',
  'x-envoy-',
  'x-http-method',
  'x-method-override',
] as const

/** Credentials, hop-by-hop fields (RFC 9110 §7.6.1), the signature, and fields that could change the request. */
export const strippedHeaders = [
  'authorization',
  'proxy-authorization',
  'proxy-authenticate',
  'proxy-connection',
  'cookie',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
  'host',
  'forwarded',
  'via',
  'x-request-id',
  'signature',
  'signature-input',
  'true-client-ip',
  'cf-connecting-ip',
  'x-client-ip',
  'x-cluster-client-ip',
] as const
