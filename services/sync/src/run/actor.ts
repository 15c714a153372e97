import type { RequestInfo } from '@postern/service-kit'
import type { Actor } from './rules.ts'

/** Whom a run is kept as coming from. */
export function actorOf({ kind, id, label }: RequestInfo['context']): Actor {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
