import type { Registry } from '@postern/service-kit'
import { Counter } from '@prometheus-io/client'

/** Returns what to call for each user who has become inactive. A directory has no limit, so that many are noticed here. */
export function measureEndedUsers(metrics: Registry): () => void {
  const ended = new Counter({
    name: 'postern_scim_users_ended_total',
    help: 'Active users whom a directory has deactivated or deleted over SCIM',
    registers: [metrics],
  })
  return () => ended.inc()
}
