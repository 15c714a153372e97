/** One step of a request. */
export interface Span {
  /** The id of the whole trace: 32 hexadecimal digits. */
  readonly traceId: string
  /** The header for requests of this step (W3C Trace Context). */
  readonly traceparent: string
  /** Ends the step with the status of its HTTP answer, 0 if none was sent. */
  end(status: number): void
}

export interface SpanStart {
  /** Method and route, never a URL, so that the set is bounded. */
  readonly name: string
  readonly attributes: Readonly<Record<string, string | number>>
  /** The traceparent that came with the request. */
  readonly parent: string | undefined
}

/** Exports spans to an OpenTelemetry collector. Not loaded if tracing is off. */
export interface Tracing {
  /** Begins the step that answering a request is. */
  begin(start: SpanStart): Span
  /** Runs work whose statements and requests become child spans. */
  run<T>(span: Span, work: () => T): T
  /** Runs background work as its own trace, which fails if the work rejects. */
  trace<T>(name: string, attributes: SpanStart['attributes'], work: () => Promise<T>): Promise<T>
  /** Returns the trace fields for log lines of this moment. */
  logFields(): Readonly<Record<string, string>>
  /** Exports remaining spans, for at most five seconds. */
  close(): Promise<void>
}

export interface TracingConfig {
  /** Origin of an OTLP receiver over HTTP. Undefined: no tracing. */
  readonly url: string | undefined
  /** How many of a hundred requests are traced. */
  readonly percent: number
}

/** What a process that traces tells of itself. */
export interface TracingSource {
  readonly service: string
  /** Told of what could not be handed over. */
  readonly onFailure: (reason: string) => void
  /**
   * Whether the caller decides which requests are traced: true behind the gateway. At the edge clients could trace
   * everything, so chance decides, and the caller's trace id is only continued.
   */
  readonly followsCaller: boolean
}

/** Opens tracing if it is configured. Loads its libraries only then. */
export async function openTracing(config: TracingConfig, source: TracingSource): Promise<Tracing | undefined> {
  if (config.url === undefined) return undefined
  const { openOtlpTracing } = await import('./otlp.ts')
  return openOtlpTracing({ url: config.url, percent: config.percent }, source)
}
