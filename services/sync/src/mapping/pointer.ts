/** What a part of a JSON Pointer names, as it is written there (RFC 6901 §4). */
export function nameOfPart(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}
