import { type TaggedPolicy, readKeyPolicy } from '../api/tenant.ts'
import { useResource } from '../ui/use-resource.ts'

export interface KeyRules {
  readonly maxDays: number
  /** If empty, keys need no address list. */
  readonly requiredAddresses: readonly string[]
}

/** Used until the policy is known; the API decides. */
const usualRules: KeyRules = { maxDays: 1825, requiredAddresses: [] }

export function useKeyPolicy(): KeyRules {
  const { resource } = useResource<TaggedPolicy>(readKeyPolicy)
  if (resource.state !== 'ready') return usualRules
  const { max_key_days: maxDays, required_addresses: requiredAddresses } = resource.value.policy
  return { maxDays, requiredAddresses }
}
