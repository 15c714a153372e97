import { type RequestInfo, problem } from '@postern/service-kit'

/** Who uploads, attaches or decides, as rows and custody events name it. */
export interface Actor {
  readonly type: 'api_key' | 'user' | 'operator' | 'connector'
  readonly id: string
  readonly label: string
}

/** Throws 403 for machines, which have no role here. */
export function actorOf({ kind, id, label }: RequestInfo['context']): Actor {
  if (kind === 'machine') throw problem('role_required')
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
