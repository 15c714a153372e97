/** As much of Trusted Types as is used here. */
interface PolicyFactory {
  createPolicy(name: string, rules: { createHTML(text: string): string | null }): unknown
}

declare global {
  var trustedTypes: PolicyFactory | undefined
}

/**
 * The server's content policy lets no text become markup. React Aria empties what it reads out to who listens by setting
 * it to the empty text: that, and nothing else, is let through. To be called before anything is drawn.
 */
export function letThroughEmptyMarkup(): void {
  globalThis.trustedTypes?.createPolicy('default', { createHTML: (text) => (text === '' ? text : null) })
}
