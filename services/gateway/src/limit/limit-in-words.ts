import type { Bucket, Caller } from './rate-limit.ts'

/** Returns the detail of a 429: which limit was reached, and why it may be lower than usual. */
export function limitInWords(
  bucket: Pick<Bucket, 'kind' | 'limit' | 'effectiveLimit'>,
  caller: Pick<Caller, 'kind' | 'tenantLimit'> | undefined,
): string {
  const { limit, effectiveLimit } = bucket
  const text = fullLimitInWords(bucket, caller)
  if (effectiveLimit >= limit) return text
  return `${text} This gateway enforces its share of ${effectiveLimit}, because the shared counter does not answer.`
}

function fullLimitInWords(
  { kind, limit }: Pick<Bucket, 'kind' | 'limit'>,
  caller: Pick<Caller, 'kind' | 'tenantLimit'> | undefined,
): string {
  switch (kind) {
    case 'api_key':
      return `The limit of this key is ${limit} requests a minute.`
    case 'machine':
      return `The limit of a service account is ${limit} requests a minute.`
    case 'user':
      return `The limit of a person is ${limit} requests a minute.`
    case 'tenant':
    case 'people':
      return caller?.kind === 'user' || caller?.kind === 'machine'
        ? `The limit of this tenant is ${caller.tenantLimit} requests a minute.`
        : `The limit of all keys of this tenant together is ${limit} requests a minute.`
    default:
      return kind satisfies never
  }
}
