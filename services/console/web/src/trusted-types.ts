interface PolicyFactory {
  createPolicy(name: string, rules: { createHTML(text: string): string | null }): unknown
}

declare global {
  var trustedTypes: PolicyFactory | undefined
}

/** React Aria clears its announcements with the empty text. Call it before the first render. */
export function allowEmptyMarkup(): void {
  globalThis.trustedTypes?.createPolicy('default', { createHTML: (text) => (text === '' ? text : null) })
}
