const seen = new Map<string, readonly string[]>()

export function columnsOf(connectorId: string): readonly string[] {
  return seen.get(connectorId) ?? []
}

export function rememberColumns(connectorId: string, columns: readonly string[]): void {
  seen.set(connectorId, columns)
}
