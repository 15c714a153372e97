import type { ProblemDocument } from '@postern/contracts'
import { type ExitCode, exitCodes } from './exit-code.ts'

/** Why a command ends without success: one line for people, a document for scripts, an exit code. Holds no secret. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly exitCode: ExitCode
  /** What `--json` prints: the server's own problem document, or one with `code` and `detail` of the command's. */
  readonly document: Readonly<Record<string, unknown>>

  constructor(exitCode: ExitCode, line: string, document: Readonly<Record<string, unknown>>, cause?: unknown) {
    super(line, { cause })
    this.exitCode = exitCode
    this.document = document
  }
}

/** The command line or a setting is wrong. */
export function usage(line: string): Failure {
  return local(exitCodes.usage, 'usage', line)
}

/** There is no such tenant or key. */
export function notFound(line: string): Failure {
  return local(exitCodes.notFound, 'not_found', line)
}

/** Nothing answers, or it is not known what became of the request. */
export function unavailable(line: string, cause?: unknown): Failure {
  return local(exitCodes.unavailable, 'unavailable', line, cause)
}

/** The server answers what it never should. */
export function unexpected(line: string, cause?: unknown): Failure {
  return local(exitCodes.unexpected, 'unexpected', line, cause)
}

/** The command was understood and could not be carried out. */
export function failed(line: string, cause: unknown): Failure {
  return local(exitCodes.unexpected, 'failed', line, cause)
}

/** What was to be verified is not true. `members` go into the document, and may say its `code`. */
export function contradicted(line: string, members: Readonly<Record<string, unknown>>): Failure {
  return new Failure(exitCodes.refused, line, { code: 'log_contradicted', detail: line, ...members })
}

/** The same failure, of a command that was watching a run: the run goes on without it. */
export function whileWatching({ exitCode, message, document, cause }: Failure, run: string): Failure {
  const line = `${message}; run ${run} goes on by itself: \`connectors show-run ${run}\` shows how it stands`
  return new Failure(exitCode, line, { ...document, run }, cause)
}

/** The server says why not. */
export function refusedBy(problem: ProblemDocument): Failure {
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
    return `the keys service does not accept the signature: are POSTERN_SIGNING_OPERATOR and the clock those of the service? (request ${instance})`
  }
  // Who reads a line has no `errors` to see: they follow.
  const said = (detail ?? '').replace(/See `errors`[^.]*\./, '').trim()
  const faults = errors.filter((fault) => !isSaid(fault, said)).map(faultLine)
  const text = said === '' ? title : said
  return `${faults.length === 0 ? text : [text.replace(/\.$/, ''), faults.join('; ')].join(': ')} (${code}, request ${instance})`
}

type Fault = NonNullable<ProblemDocument['errors']>[number]

/** Whether the words of the answer hold all that a fault says: of the body as a whole they often do. */
function isSaid({ parameter, pointer = '', detail }: Fault, said: string): boolean {
  return parameter === undefined && pointer === '' && said.includes(detail.replace(/\.$/, ''))
}

function faultLine({ parameter, pointer, detail }: Fault): string {
  const place = parameter ?? (pointer === '' ? 'the body' : pointer)
  return place === undefined ? detail : `${place} ${detail}`
}
