/** A checked address, to connect to instead of the name. */
export interface OutboundAddress {
  readonly address: string
  readonly family: 4 | 6
}

export interface OutboundRequest {
  readonly url: string
  readonly method?: 'GET' | 'POST'
  /** Sent only to the origin of `url`. A redirect to another origin is followed without them. */
  readonly headers?: Readonly<Record<string, string>>
  /** Sent once: a redirect of a request with a body is a failure. */
  readonly body?: string
  readonly signal: AbortSignal
}

export interface OutboundAnswer {
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Decompressed, and counted against the limit of the read. */
  readonly body: AsyncGenerator<Uint8Array>
  discard(): void
}

export interface OutboundHttp {
  /** Sends a request once and follows redirects, checking each address. Throws a SourceReadError. */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  close(): Promise<void>
}

export interface OutboundHttpOptions {
  /** Certificates (PEM) that replace the system's trust store. */
  readonly ca?: string | undefined
  /** Over all responses, after decompression. */
  readonly maxBytes: number
  readonly maxSilenceMs: number
}

/** The only way to reach a source. Never connects to an address that the platform does not allow. */
export interface Outbound {
  /** Throws a SourceReadError if any address of the host is not allowed. */
  resolve(host: string, signal: AbortSignal): Promise<OutboundAddress>
  isListed(address: string): boolean
  http(options: OutboundHttpOptions): OutboundHttp
}
