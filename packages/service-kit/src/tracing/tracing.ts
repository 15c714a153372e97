/** One step of a request, with a beginning and an end. */
export interface Span {
  /** Of the whole request, over all processes: 32 hexadecimal digits. */
  readonly traceId: string
  /** What a request that is part of this step carries (W3C Trace Context). */
  readonly traceparent: string
  /** Ends the step; `status` is that of its HTTP answer, 0 for none. */
  end(status: number): void
}

export interface SpanStart {
  /** Of a bounded set: method and route, never a URL. */
  readonly name: string
  readonly attributes: Readonly<Record<string, string | number>>
  /** The traceparent that came with the request. */
  readonly parent: string | undefined
}

/** Hands spans to an OpenTelemetry collector. There is none of this where tracing is off: nothing is loaded, or asked. */
export interface Tracing {
  /** Begins the step that answering a request is. */
  begin(start: SpanStart): Span
  /** Runs work so that statements and requests that it makes are steps of this one. */
  run<T>(span: Span, work: () => T): T
  /** Runs work that no request has asked for as a trace of its own; it has failed where the work rejects. */
  trace<T>(name: string, attributes: SpanStart['attributes'], work: () => Promise<T>): Promise<T>
  /** What log lines of this moment say of their trace. */
  logFields(): Readonly<Record<string, string>>
  /** Hands over what is left, for as long as that takes, but at most five seconds. */
  close(): Promise<void>
}

export interface TracingConfig {
  /** Origin of an OTLP receiver over HTTP; undefined: no tracing. */
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
   * Whether others decide which requests are traced: true behind the gateway. At the edge whoever calls might have all of
   * his traced, so there chance decides, and the caller's trace is only gone on with.
   */
  readonly followsCaller: boolean
}

/** Opens tracing where it is configured. The libraries for it are loaded then, and not before. */
export async function openTracing(config: TracingConfig, source: TracingSource): Promise<Tracing | undefined> {
  if (config.url === undefined) return undefined
  const { openOtlpTracing } = await import('./otlp.ts')
  return openOtlpTracing({ url: config.url, percent: config.percent }, source)
}
