import { type TaggedPolicy, readKeyPolicy } from '../api/tenant.ts'
import { useResource } from '../ui/use-resource.ts'

export interface KeyRules {
  readonly maxDays: number
  /** If empty, keys need no address list. */
  readonly requiredAddresses: readonly string[]
  /** The age at which a key is due for rotation. No key is until the policy is known. */
  readonly rotationDays: number
}

/** Used until the policy is known; the API decides. */
const usualRules: KeyRules = { maxDays: 1825, requiredAddresses: [], rotationDays: Number.POSITIVE_INFINITY }

export function useKeyPolicy(): KeyRules {
  const { resource } = useResource<TaggedPolicy>(readKeyPolicy)
  if (resource.state !== 'ready') return usualRules
  const { max_key_days: maxDays, required_addresses: requiredAddresses } = resource.value.policy
  return { maxDays, requiredAddresses, rotationDays: resource.value.policy.rotation_days }
}
