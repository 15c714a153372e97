/** What a tool gets. */
export interface Workshop {
  /** A folder of its own for each tool is made below this one. */
  readonly folder: string
  /** The path of the OpenAPI document. */
  readonly document: string
  /** POSTERN_URL and POSTERN_KEY for the programs. */
  readonly variables: Readonly<Record<string, string>>
}

/** A tool that makes a client or validates the document. */
export interface Tool {
  readonly name: string
  /** Programs on the PATH. */
  readonly needs: readonly string[]
  /** Generates, compiles and uses the client. Throws a CommandError if a step fails. */
  readonly prove: (workshop: Workshop) => Promise<void>
}
