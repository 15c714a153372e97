/** Returns the member names of a JSON Pointer (RFC 6901), or undefined for another text. */
export function parsePointer(text: string): readonly string[] | undefined {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  return text
    .slice(1)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Returns the value at the pointer, or undefined. Only own members count. */
export function resolvePointer(value: unknown, pointer: string): unknown {
  const names = parsePointer(pointer)
  let found = names === undefined ? undefined : value
  for (const name of names ?? []) {
    if (typeof found !== 'object' || found === null) return undefined
    if (Array.isArray(found) && !/^(?:0|[1-9][0-9]*)$/.test(name)) return undefined
    found = Object.getOwnPropertyDescriptor(found, name)?.value
  }
  return found
}

/** Returns the pointer to a top-level member. */
export function pointerTo(name: string): string {
  return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
}
