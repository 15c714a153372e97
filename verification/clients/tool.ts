export interface Workshop {
  readonly folder: string
  readonly document: string
  readonly variables: Readonly<Record<string, string>>
}

export interface Tool {
  readonly name: string
  readonly needs: readonly string[]
  readonly prove: (workshop: Workshop) => Promise<void>
}
