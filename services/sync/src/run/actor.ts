import { type RequestInfo, problem } from '@postern/service-kit'
import type { Actor } from './rules.ts'

export function actorOf({ kind, id, label }: RequestInfo['context']): Actor {
  if (kind === 'machine') throw problem('role_required')
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
