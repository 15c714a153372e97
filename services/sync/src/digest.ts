import { createHash } from 'node:crypto'

/** What an entity tag says of an answer: another one as soon as anything of it is another. */
export function digestOf(answer: object): string {
  return createHash('sha256').update(JSON.stringify(answer)).digest('base64url').slice(0, 22)
}
