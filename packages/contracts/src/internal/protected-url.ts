const loopbackHosts: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/** HTTP is safe only on the loopback address. */
export function isProtectedUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || (protocol === 'http:' && loopbackHosts.includes(hostname))
}
