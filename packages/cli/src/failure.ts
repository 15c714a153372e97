import type { ProblemDocument } from '@postern/contracts'
import { type ExitCode, exitCodes } from './exit-code.ts'

/** A line for people, a document for scripts and an exit code. Contains no secret. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly exitCode: ExitCode
  /** The server's problem document, or one with the command's own `code` and `detail`. */
  readonly document: Readonly<Record<string, unknown>>

  constructor(exitCode: ExitCode, line: string, document: Readonly<Record<string, unknown>>, cause?: unknown) {
    super(line, { cause })
    this.exitCode = exitCode
    this.document = document
  }
}

export function usage(line: string): Failure {
  return local(exitCodes.usage, 'usage', line)
}

export function notFound(line: string): Failure {
  return local(exitCodes.notFound, 'not_found', line)
}

export function unavailable(line: string, cause?: unknown): Failure {
  return local(exitCodes.unavailable, 'unavailable', line, cause)
}

export function unexpected(line: string, cause?: unknown): Failure {
  return local(exitCodes.unexpected, 'unexpected', line, cause)
}

export function failed(line: string, cause: unknown): Failure {
  return local(exitCodes.unexpected, 'failed', line, cause)
}

/** The verification failed; `members` extend the document and may set its `code`. */
export function unsuccessful(line: string, members: Readonly<Record<string, unknown>>): Failure {
  return new Failure(exitCodes.refused, line, { code: 'log_contradicted', detail: line, ...members })
}

/** Adds the id of the watched run, which continues on the server. */
export function withWatchedRun({ exitCode, message, document, cause }: Failure, run: string): Failure {
  const line = `${message}; run ${run} continues on the server. Use \`connectors show-run ${run}\` to see its status`
  return new Failure(exitCode, line, { ...document, run }, cause)
}

export function serverRejected(problem: ProblemDocument): Failure {
  return new Failure(exitCodeOf(problem), lineOf(problem), problem)
}

function local(exitCode: ExitCode, code: string, line: string, cause?: unknown): Failure {
  return new Failure(exitCode, line, { code, detail: line }, cause)
}

function exitCodeOf({ status }: ProblemDocument): ExitCode {
  if (status === 404) return exitCodes.notFound
  if (status < 500) return exitCodes.refused
  return status === 502 || status === 503 || status === 504 ? exitCodes.unavailable : exitCodes.unexpected
}

function lineOf({ code, title, detail, errors = [], instance }: ProblemDocument): string {
  if (code === 'unsigned_request') {
    return `the keys service does not accept the signature. Check POSTERN_OPERATOR_CREDENTIAL or POSTERN_SIGNING_OPERATOR, and the clock (request ${instance})`
  }
  // A line has no `errors` member.
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

/** Rejects words that an option does not have. */
export function assertWords(option: string, given: readonly string[], allowed: readonly string[]): void {
  if (given.every((word) => allowed.includes(word))) return
  throw usage(`${option} must be one of ${allowed.join(', ')}`)
}
