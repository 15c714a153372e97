import type { Logger } from '@postern/service-kit'
import { type SignInProvider, listNamedTenants } from '@postern/sign-in'
import type { TenantLookup } from './tenant-lookup.ts'

/** Returns a check that logs each tenant of the sign-in file that does not exist, once. Repeat it until all are known. */
export function createTenantCheck(
  providers: readonly SignInProvider[],
  tenants: Pick<TenantLookup, 'obtain'>,
  logger: Pick<Logger, 'error'>,
): () => Promise<void> {
  let unchecked = listNamedTenants(providers)
  let isRunning = false
  return async () => {
    if (isRunning || unchecked.length === 0) return
    isRunning = true
    const left: (typeof unchecked)[number][] = []
    for (const place of unchecked) {
      const { kind } = await tenants.obtain(place.reference)
      if (kind === 'unavailable') left.push(place)
      if (kind === 'unknown') {
        const advice = 'Create the tenant, or correct the sign-in file and restart the gateways.'
        const { provider, member, reference } = place
        logger.error({ event: 'sign_in_tenant_unknown', provider, member, tenant: reference, advice })
      }
    }
    unchecked = left
    isRunning = false
  }
}
