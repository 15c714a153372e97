export interface Span {
  readonly traceId: string
  /** W3C Trace Context. */
  readonly traceparent: string
  end(status: number): void
}

export interface SpanStart {
  /** Method and route, never a URL, so that the set is bounded. */
  readonly name: string
  readonly attributes: Readonly<Record<string, string | number>>
  readonly parent: string | undefined
}

/** Not loaded if tracing is off. */
export interface Tracing {
  begin(start: SpanStart): Span
  run<T>(span: Span, work: () => T): T
  /** Fails if the work rejects. */
  trace<T>(name: string, attributes: SpanStart['attributes'], work: () => Promise<T>): Promise<T>
  logFields(): Readonly<Record<string, string>>
  close(): Promise<void>
}

export interface TracingConfig {
  /** Origin of an OTLP receiver; undefined: no tracing. */
  readonly url: string | undefined
  readonly percent: number
}

export interface TracingSource {
  readonly service: string
  readonly onFailure: (reason: string) => void
  /** Whether the caller decides which requests are traced. At the edge `percent` decides. */
  readonly followsCaller: boolean
}

/** Loads tracing libraries only if configured. */
export async function openTracing(config: TracingConfig, source: TracingSource): Promise<Tracing | undefined> {
  if (config.url === undefined) return undefined
  const { openOtlpTracing } = await import('./otlp.ts')
  return openOtlpTracing({ url: config.url, percent: config.percent }, source)
}
