import { createHash } from 'node:crypto'

/** Returns a digest of a response for its entity tag. */
export function digestOf(answer: object): string {
  return createHash('sha256').update(JSON.stringify(answer)).digest('base64url').slice(0, 22)
}
