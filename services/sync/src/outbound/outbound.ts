/** An address that a source may be connected to. Whoever connects uses it, and not the name it was found under. */
export interface OutboundAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** What is asked of an HTTP source. */
export interface OutboundRequest {
  readonly url: string
  readonly method?: 'GET' | 'POST'
  /** Go to the origin of `url` alone: a redirect to another is followed without them. */
  readonly headers?: Readonly<Record<string, string>>
  /** Is sent once: a redirect of a request with a body is a failure. */
  readonly body?: string
  readonly signal: AbortSignal
}

/** What an HTTP source has answered. */
export interface OutboundAnswer {
  /** Where the last redirect led. */
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Decompressed; counted against what the read may take in all. Throws a SourceFailure. */
  readonly body: AsyncGenerator<Uint8Array>
  /** Lets go of a body that is not read. */
  discard(): void
}

/** Connections to HTTP sources, kept alive for one read. */
export interface OutboundHttp {
  /** Asks once, following redirects, each checked as the first address is. Throws a SourceFailure. */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  close(): Promise<void>
}

export interface OutboundHttpOptions {
  /** Certificates (PEM) that are trusted in place of the system's. */
  readonly ca?: string | undefined
  /** Bytes of all answers together, once they are decompressed. */
  readonly maxBytes: number
  /** How long a source may say nothing, in milliseconds. */
  readonly maxSilenceMs: number
}

/** The only way out to a source: nothing behind it reaches an address that the platform has not allowed. */
export interface Outbound {
  /** Looks a host up, once, and answers an address that may be connected to; throws a SourceFailure when any may not. */
  resolve(host: string, signal: AbortSignal): Promise<OutboundAddress>
  /** Whether the platform has listed the address as one of its own: only there may a source be asked without encryption. */
  isListed(address: string): boolean
  http(options: OutboundHttpOptions): OutboundHttp
}
