import { ConfigurationError, type Logger } from '@postern/service-kit'
import { type NamedTenant, type SignInProvider, listNamedTenants } from '@postern/sign-in'
import { setTimeout as delay } from 'node:timers/promises'
import type { TenantLookup } from './tenant-lookup.ts'

export interface TenantCheck {
  /**
   * Waits up to five seconds for the keys service. Throws a ConfigurationError if the sign-in file names a tenant that
   * does not exist.
   */
  assertTenants(): Promise<void>
  /** Repeat it: logs each missing tenant that was not checked before, once. */
  repeat(): Promise<void>
}

const pauseMs = 200
const startWaitMs = 5000

/** Checks the tenants that the sign-in file names. While the keys service is away, none is missing. */
export function createTenantCheck(
  providers: readonly SignInProvider[],
  tenants: Pick<TenantLookup, 'obtain'>,
  logger: Pick<Logger, 'error'>,
  waitMs = startWaitMs,
): TenantCheck {
  let unchecked = listNamedTenants(providers)

  /** Stops at the first tenant that cannot be looked up. */
  async function findMissing(): Promise<readonly NamedTenant[]> {
    const missing: NamedTenant[] = []
    for (const place of unchecked) {
      const { kind } = await tenants.obtain(place.reference)
      if (kind === 'unavailable') break
      unchecked = unchecked.filter((other) => other !== place)
      if (kind === 'unknown') missing.push(place)
    }
    return missing
  }

  return {
    assertTenants: async () => {
      const missing: NamedTenant[] = []
      const deadline = performance.now() + waitMs
      missing.push(...(await findMissing()))
      while (unchecked.length > 0 && performance.now() < deadline) {
        await delay(pauseMs)
        missing.push(...(await findMissing()))
      }
      if (missing.length > 0)
        throw new ConfigurationError(missing.map((place) => `POSTERN_SIGN_IN: ${describe(place)}`))
    },
    repeat: async () => {
      for (const { path, reference } of await findMissing()) {
        logger.error({ event: 'sign_in_tenant_unknown', path, tenant: reference, advice })
      }
    },
  }
}

const advice = 'Create the tenant with postern tenants create, or correct the sign-in file and restart the gateways.'

function describe({ path, reference }: NamedTenant): string {
  return `${path}: there is no tenant ${reference}. ${advice}`
}
