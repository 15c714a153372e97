/** A value that is JSON already, as a database wrote it: it is sent as it is, without being read. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** An array of values that are JSON already. */
  static list(texts: readonly string[]): JsonText {
    return new JsonText(`[${texts.join(',')}]`)
  }
}

/** What a value is that may be JSON already. */
export function valueOf(value: unknown): unknown {
  if (!(value instanceof JsonText)) return value
  const read: unknown = JSON.parse(value.text)
  return read
}

/** A value, which may be JSON already, as JSON. */
export function textOf(value: unknown): string {
  return value instanceof JsonText ? value.text : JSON.stringify(value)
}
