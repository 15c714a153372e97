import type { Readable } from 'node:stream'

/** An address that a source may be connected to. Whoever connects uses it, and not the name it was found under. */
export interface OutboundAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** What is asked of an HTTP source. The body is sent once: a redirect of a request with a body is a failure. */
export interface OutboundRequest {
  readonly url: string
  readonly method?: 'GET' | 'POST'
  /** Credentials in here go to the origin of `url` alone. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** Bytes that the answer may have once it is decompressed. */
  readonly maxBytes: number
}

/** What an HTTP source has answered. `body` is decompressed, fails with a SourceFailure, and must be read or destroyed. */
export interface OutboundAnswer {
  /** Where the last redirect led. */
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Readable
}

/** The only way out to a source: nothing behind it reaches an address that the platform has not allowed. */
export interface Outbound {
  /** Looks a host up, once, and answers an address that may be connected to; throws a SourceFailure when any may not. */
  resolve(host: string, signal: AbortSignal): Promise<OutboundAddress>
  /** Asks an HTTP source, following redirects, each checked as the first address is. */
  request(request: OutboundRequest): Promise<OutboundAnswer>
}
