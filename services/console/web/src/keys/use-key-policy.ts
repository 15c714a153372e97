import { type TaggedPolicy, readKeyPolicy } from '../api/tenant.ts'
import { useResource } from '../ui/use-resource.ts'

/** What the tenant demands of a key that is made now. */
export interface KeyRules {
  /** Longest life, in days. */
  readonly maxDays: number
  /** Networks that the key must be limited to; empty where it need not be. */
  readonly requiredAddresses: readonly string[]
}

/** As long as the tenant's own are not known; the API decides in any case. */
const usualRules: KeyRules = { maxDays: 1825, requiredAddresses: [] }

/** What the tenant allows of a key. */
export function useKeyPolicy(): KeyRules {
  const { resource } = useResource<TaggedPolicy>(readKeyPolicy)
  if (resource.state !== 'ready') return usualRules
  const { max_key_days: maxDays, required_addresses: requiredAddresses } = resource.value.policy
  return { maxDays, requiredAddresses }
}
