/**
 * The headers that carry the platform's own word from the gateway to a service. The gateway strips them from every
 * client, in every spelling, and sets them itself; a service believes them only under a valid signature (RFC 9421).
 */
export const contextHeader = 'postern-context'
export const assertionHeader = 'postern-assertion'
export const requestIdHeader = 'x-request-id'
export const signatureInputHeader = 'signature-input'
export const signatureHeader = 'signature'

/** Every header whose folded name (lower case, `_` read as `-`) begins with one of these never passes the gateway. */
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
 * Folded names that never pass the gateway: credentials, hop-by-hop fields (RFC 9110 §7.6.1), the signature itself, and
 * fields by which a client could make a service see another request than the one that was authorized.
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
