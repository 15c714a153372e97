/** The source could not be read to its end, so the items before it are incomplete. */
export class SourceReadError extends Error {
  override readonly name = 'SourceReadError'
  /** A stable identifier in snake_case. */
  readonly code: string
  readonly retryable: boolean
  /** Status 429 or 503: an immediate retry is pointless. */
  readonly isThrottled: boolean
  readonly row: number | undefined
  readonly field: string | undefined

  /** `message` tells the owner what to fix and contains no secret. `cause` is for the log. */
  constructor(
    code: string,
    message: string,
    options: {
      readonly retryable?: boolean
      readonly isThrottled?: boolean
      readonly row?: number
      readonly field?: string
      readonly cause?: unknown
    } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? false
    this.isThrottled = options.isThrottled ?? false
    this.row = options.row
    this.field = options.field
  }
}

export function describeFailure({ row, message }: SourceReadError): string {
  return row === undefined ? message : `row ${row}: ${message}`
}
