export interface Workshop {
  /** A folder of its own for each tool is made below this one. */
  readonly folder: string
  readonly document: string
  readonly variables: Readonly<Record<string, string>>
}

export interface Tool {
  readonly name: string
  readonly needs: readonly string[]
  /** Generates, compiles and uses the client. Throws a CommandError if a step fails. */
  readonly prove: (workshop: Workshop) => Promise<void>
}
