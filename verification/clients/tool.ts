export interface Workshop {
  readonly folder: string
  readonly document: string
  /** The same as OpenAPI 2.0. */
  readonly swagger: string
  readonly variables: Readonly<Record<string, string>>
}

export interface Tool {
  readonly name: string
  readonly needs: readonly string[]
  readonly prove: (workshop: Workshop) => Promise<void>
}
