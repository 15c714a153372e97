/** An address that was checked. Connect to it and not to the name. */
export interface OutboundAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** A request to an HTTP source. */
export interface OutboundRequest {
  readonly url: string
  readonly method?: 'GET' | 'POST'
  /** Sent only to the origin of `url`. A redirect to another origin is followed without them. */
  readonly headers?: Readonly<Record<string, string>>
  /** Sent once: a redirect of a request with a body is a failure. */
  readonly body?: string
  readonly signal: AbortSignal
}

/** A response of an HTTP source. */
export interface OutboundAnswer {
  /** The URL after all redirects. */
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Decompressed, and counted against the limit of the read. Throws a SourceFailure. */
  readonly body: AsyncGenerator<Uint8Array>
  /** Drops a body that is not read. */
  discard(): void
}

/** Connections to HTTP sources, kept alive for one read. */
export interface OutboundHttp {
  /** Sends a request once and follows redirects, checking each address. Throws a SourceFailure. */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  close(): Promise<void>
}

export interface OutboundHttpOptions {
  /** Certificates (PEM) that replace the system's trust store. */
  readonly ca?: string | undefined
  /** The most bytes of all responses together, after decompression. */
  readonly maxBytes: number
  /** How long a source may be silent, in milliseconds. */
  readonly maxSilenceMs: number
}

/** The only way to reach a source. Never connects to an address that the platform does not allow. */
export interface Outbound {
  /**
   * Looks up a host once and returns an address to connect to. Throws a SourceFailure if any of its addresses is not
   * allowed.
   */
  resolve(host: string, signal: AbortSignal): Promise<OutboundAddress>
  /** Returns whether the platform lists the address. Only listed ones may be unencrypted. */
  isListed(address: string): boolean
  http(options: OutboundHttpOptions): OutboundHttp
}
