import { useResource } from '../ui/use-resource.ts'
import { type KeyPolicy, readKeyPolicy } from '../api/keys.ts'

/** Longest life of a key, in days, as long as the tenant's own is not known; the API decides in any case. */
const usualMaxDays = 1825

/** What the tenant allows of a key. */
export function useKeyPolicy(): { readonly maxDays: number } {
  const { resource } = useResource<KeyPolicy>(readKeyPolicy)
  return { maxDays: resource.state === 'ready' ? resource.value.max_key_days : usualMaxDays }
}
