/** Why a source could not be read to its end. Whatever it gave before is not the whole of it. */
export class SourceFailure extends Error {
  override readonly name = 'SourceFailure'
  /** Stable, in snake_case. */
  readonly code: string
  /** Whether the same read may succeed a little later. */
  readonly retryable: boolean
  /** The source has said that it cannot be asked now: only a later read may succeed. */
  readonly isPutOff: boolean
  readonly row: number | undefined
  readonly field: string | undefined

  /** `message` says what to mend, for the owner of the connector; it holds no secret. `cause` is for the log. */
  constructor(
    code: string,
    message: string,
    options: {
      readonly retryable?: boolean
      readonly isPutOff?: boolean
      readonly row?: number
      readonly field?: string
      readonly cause?: unknown
    } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? false
    this.isPutOff = options.isPutOff ?? false
    this.row = options.row
    this.field = options.field
  }
}

/** What is wrong and where. */
export function wordsOf({ row, message }: SourceFailure): string {
  return row === undefined ? message : `row ${row}: ${message}`
}
