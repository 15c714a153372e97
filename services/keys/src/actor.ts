import { problem } from '@postern/service-kit'
import type { TenantContext } from '@postern/signed-context'

/** Who did something, as the audit trail keeps it: the label is what it was at the time. */
export interface Actor {
  readonly type: string
  readonly id: string
  readonly label: string
}

/** Gives the actor of a request. Only people and the operator act on keys: a route that lets others in is a fault of ours. */
export function actorOf(context: TenantContext): Actor & { readonly type: 'user' | 'operator' } {
  const { kind, id, label } = context
  if (kind === 'user' || kind === 'operator') return { type: kind, id, label }
  throw problem('role_required')
}
