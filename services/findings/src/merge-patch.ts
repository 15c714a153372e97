type Members = Readonly<Record<string, unknown>>

/**
 * What a JSON Merge Patch (RFC 7396 §2) makes of a value: an object is merged member by member, at any depth, null takes a
 * member away, and anything else takes the place of what was there. An undefined member is one that is absent.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else if (value !== undefined) merged.set(name, mergePatch(merged.get(name), value))
  }
  return Object.fromEntries(merged)
}

/** The members of a resource that a merge patch names, as it makes them; null is how a resource shows one that is gone. */
export function mergedMembers(resource: object, patch: object): Members {
  const before: Members = { ...resource }
  const named = Object.entries(patch).filter(([, value]) => value !== undefined)
  return Object.fromEntries(named.map(([name, value]) => [name, mergePatch(before[name], value)]))
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
