import type { ProblemDocument } from '@postern/contracts'
import { type ExitCode, exitCodes } from './exit-code.ts'

/** A line for people, a document for scripts and an exit code. Contains no secret. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: ExitCode
  /** The server's problem document, or one with the command's own `code` and `detail`. */
  readonly document: Readonly<Record<string, unknown>>

  constructor(exitCode: ExitCode, line: string, document: Readonly<Record<string, unknown>>, cause?: unknown) {
    super(line, { cause })
    this.exitCode = exitCode
    this.document = document
  }
}

export function usageError(line: string): CliError {
  return createError(exitCodes.usage, 'usage', line)
}

export function notFoundError(line: string): CliError {
  return createError(exitCodes.notFound, 'not_found', line)
}

export function unavailableError(line: string, cause?: unknown): CliError {
  return createError(exitCodes.unavailable, 'unavailable', line, cause)
}

export function unexpectedError(line: string, cause?: unknown): CliError {
  return createError(exitCodes.unexpected, 'unexpected', line, cause)
}

export function failedError(line: string, cause: unknown): CliError {
  return createError(exitCodes.unexpected, 'failed', line, cause)
}

/** A verification, run or test did not succeed. `members` extend the document. */
export function unsuccessfulError(
  code: string,
  line: string,
  members: Readonly<Record<string, unknown>> = {},
): CliError {
  return new CliError(exitCodes.refused, line, { code, detail: line, ...members })
}

/** Adds the id of the watched run, which continues on the server. */
export function withWatchedRun({ exitCode, message, document, cause }: CliError, run: string): CliError {
  const line = `${message}; run ${run} continues on the server. Use \`connectors show-run ${run}\` to see its status`
  return new CliError(exitCode, line, { ...document, run }, cause)
}

export function rejectedByServerError(problem: ProblemDocument): CliError {
  return new CliError(exitCodeOf(problem), lineOf(problem), problem)
}

function createError(exitCode: ExitCode, code: string, line: string, cause?: unknown): CliError {
  return new CliError(exitCode, line, { code, detail: line }, cause)
}

function exitCodeOf({ status }: ProblemDocument): ExitCode {
  if (status === 404) return exitCodes.notFound
  if (status < 500) return exitCodes.refused
  return status === 502 || status === 503 || status === 504 ? exitCodes.unavailable : exitCodes.unexpected
}

function lineOf({ code, title, detail, errors = [], instance }: ProblemDocument): string {
  if (code === 'unsigned_request') {
    return `the service does not accept the signature. Check POSTERN_OPERATOR_CREDENTIAL or POSTERN_SIGNING_OPERATOR, and the clock (request ${instance})`
  }
  // The reader of a line does not see `errors`.
  const said = (detail ?? '').replace(/ [0-9]+ more errors? (?:is|are) in `errors`\.$/, '')
  const faults = errors.filter((fault) => !includesError(fault, said)).map(faultLine)
  const text = said === '' ? title : said
  return `${faults.length === 0 ? text : [text.replace(/\.$/, ''), faults.join('; ')].join(': ')} (${code}, request ${instance})`
}

type Fault = NonNullable<ProblemDocument['errors']>[number]

function includesError({ detail }: Fault, said: string): boolean {
  return said.includes(detail.replace(/\.$/, ''))
}

function faultLine({ parameter, pointer, detail }: Fault): string {
  const place = parameter ?? (pointer === '' ? 'the body' : pointer)
  return place === undefined ? detail : `${place} ${detail}`
}

/** Throws unless the option allows all of the words. */
export function assertWords(option: string, given: readonly string[], allowed: readonly string[]): void {
  if (given.every((word) => allowed.includes(word))) return
  throw usageError(`${option} must be one of ${allowed.join(', ')}`)
}
