import { assertionHeader, contextHeader, requestIdHeader } from '@postern/contracts'

/** The label in `Signature-Input` and `Signature`. */
export const signatureLabel = 'postern'

/** Covered by every signature, in this order. */
export const mandatoryHeaders: readonly string[] = [contextHeader, assertionHeader, requestIdHeader]

/** Client headers that change what a request does: covered if present, in this order. An uncovered one is rejected. */
export const coveredWhenPresent = [
  'content-type',
  'content-length',
  'content-digest',
  'idempotency-key',
  'if-match',
] as const
