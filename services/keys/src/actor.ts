import { problem } from '@postern/service-kit'
import type { TenantContext } from '@postern/signed-context'

/** Who did something. `label` is the actor's name at that time. */
export interface Actor {
  readonly type: string
  readonly id: string
  readonly label: string
}

/** Only people, service accounts and the operator may act on keys; other callers indicate a bug in a route. */
export function actorOf(context: TenantContext): Actor & { readonly type: 'user' | 'machine' | 'operator' } {
  const { kind, id, label } = context
  if (kind === 'user' || kind === 'machine' || kind === 'operator') return { type: kind, id, label }
  throw problem('role_required')
}
