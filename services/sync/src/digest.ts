import { createHash } from 'node:crypto'

export function digestOf(answer: object): string {
  return createHash('sha256').update(JSON.stringify(answer)).digest('base64url').slice(0, 22)
}
