import { assertionHeader, contextHeader, requestIdHeader } from '@postern/contracts'

/** Label of the signature in `Signature-Input` and `Signature`. */
export const signatureLabel = 'postern'

/** Headers that every signature covers, in their order in the signature. */
export const mandatoryHeaders: readonly string[] = [contextHeader, assertionHeader, requestIdHeader]

/**
 * Headers of the client that change what a request does. Covered when they are present, in this order; a request that
 * carries one its signature does not cover is refused, so none can be added on the way.
 */
export const coveredWhenPresent = [
  'content-type',
  'content-length',
  'content-digest',
  'idempotency-key',
  'if-match',
] as const
