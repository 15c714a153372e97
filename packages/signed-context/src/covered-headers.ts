import { assertionHeader, contextHeader, requestIdHeader } from '@postern/contracts'

/** The label of the signature in `Signature-Input` and `Signature`. */
export const signatureLabel = 'postern'

/** The headers that every signature covers, in this order. */
export const mandatoryHeaders: readonly string[] = [contextHeader, assertionHeader, requestIdHeader]

/**
 * Client headers that change what a request does. The signature covers them if they are present, in this order. A
 * request that has one uncovered is rejected, so nobody can add one on the way.
 */
export const coveredWhenPresent = [
  'content-type',
  'content-length',
  'content-digest',
  'idempotency-key',
  'if-match',
] as const
