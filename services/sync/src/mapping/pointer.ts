/** Unescapes a part of a JSON Pointer (RFC 6901, section 4). */
export function nameOfPart(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}
