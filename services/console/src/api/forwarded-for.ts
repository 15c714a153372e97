import type { IncomingHttpHeaders } from 'node:http'

/** Returns `x-forwarded-for` with the address of the caller. The gateway decides how much of the chain it trusts. */
export function forwardedFor({
  socket,
  headers,
}: {
  readonly socket: { readonly remoteAddress?: string | undefined }
  readonly headers: IncomingHttpHeaders
}): string {
  const before = headers['x-forwarded-for']
  const from = socket.remoteAddress ?? 'unknown'
  return typeof before === 'string' && before !== '' ? `${before}, ${from}` : from
}
