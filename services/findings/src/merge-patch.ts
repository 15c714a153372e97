type Members = Readonly<Record<string, unknown>>

/** RFC 7396 section 2. Undefined members count as absent. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else if (value !== undefined) merged.set(name, mergePatch(merged.get(name), value))
  }
  return Object.fromEntries(merged)
}

/** Removed members are null. */
export function mergedMembers(resource: object, patch: object): Members {
  const before: Members = { ...resource }
  const named = Object.entries(patch).filter(([, value]) => value !== undefined)
  return Object.fromEntries(named.map(([name, value]) => [name, mergePatch(before[name], value)]))
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
