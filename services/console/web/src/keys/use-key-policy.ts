import { type TaggedPolicy, readKeyPolicy } from '../api/tenant.ts'
import { useResource } from '../ui/use-resource.ts'

/** The tenant's requirements for new keys. */
export interface KeyRules {
  /** The maximum lifetime, in days. */
  readonly maxDays: number
  /** The required networks. If empty, keys need no address list. */
  readonly requiredAddresses: readonly string[]
}

/** Used until the tenant's policy is known. The API decides in any case. */
const usualRules: KeyRules = { maxDays: 1825, requiredAddresses: [] }

/** Returns the tenant's key policy. */
export function useKeyPolicy(): KeyRules {
  const { resource } = useResource<TaggedPolicy>(readKeyPolicy)
  if (resource.state !== 'ready') return usualRules
  const { max_key_days: maxDays, required_addresses: requiredAddresses } = resource.value.policy
  return { maxDays, requiredAddresses }
}
