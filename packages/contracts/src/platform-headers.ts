/**
 * Headers that tell a service about the caller. The gateway removes them from client requests in every spelling. A
 * service trusts them only with a valid signature (RFC 9421).
 */
export const contextHeader = 'postern-context'
export const assertionHeader = 'postern-assertion'
export const requestIdHeader = 'x-request-id'
export const signatureInputHeader = 'signature-input'
export const signatureHeader = 'signature'

/** The gateway removes headers whose folded name (lower case, `_` read as `-`) begins with one of these. */
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

/**
 * Folded names that the gateway removes: credentials, hop-by-hop fields (RFC 9110 §7.6.1), the signature, and fields
 * that could make a service see a different request than the authorized one.
 */
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
