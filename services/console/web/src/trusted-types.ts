/** The part of Trusted Types that is used here. */
interface PolicyFactory {
  createPolicy(name: string, rules: { createHTML(text: string): string | null }): unknown
}

declare global {
  var trustedTypes: PolicyFactory | undefined
}

/**
 * Allows only the empty text as markup. React Aria clears its announcements with it, and the content policy forbids
 * everything else. Call it before the first render.
 */
export function letThroughEmptyMarkup(): void {
  globalThis.trustedTypes?.createPolicy('default', { createHTML: (text) => (text === '' ? text : null) })
}
