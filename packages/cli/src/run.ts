import { CommanderError } from 'commander'
import { type ExitCode, exitCodes } from './exit-code.ts'
import { Failure, unexpected, usage } from './failure.ts'
import { printable, printableJson, printableLines } from './printable.ts'
import { createProgram } from './program.ts'
import type { Environment } from './settings.ts'

/** The output of a command. */
export interface Output {
  out(text: string): void
  err(text: string): void
  /** Whether `err` is a terminal, whose last line can be overwritten. */
  readonly isTerminal?: boolean
  /** Returns all of standard input. */
  input?(): Promise<string>
}

/** Runs one command line and returns its exit code. Never throws. */
export async function run(args: readonly string[], env: Environment, output: Output): Promise<ExitCode> {
  const context = {
    env,
    // Texts come from servers and files, so remove control characters from all output.
    print: (text: string) => output.out(`${printableLines(text)}\n`),
    note: (line: string) => output.err(`${printable(line)}\n`),
    progress: progressOf(output),
    ...(output.input === undefined ? {} : { readInput: output.input }),
  }
  const program = createProgram(context, (text) => output.err(printableLines(text)))
  try {
    await program.parseAsync(args, { from: 'user' })
    return exitCodes.ok
  } catch (error) {
    if (error instanceof CommanderError && isHelp(error)) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    const failure = failureOf(error)
    const line = args.includes('--json')
      ? printableJson(JSON.stringify(failure.document))
      : `postern: ${printable(oneLine(failure.message))}`
    output.err(`${line}\n`)
    return failure.exitCode
  }
}

/** Shows progress: on a terminal in one line, otherwise in a line for each change. */
function progressOf({ err, isTerminal = false }: Output): (line: string | undefined) => void {
  return (line) => {
    if (line === undefined) err(isTerminal ? '\n' : '')
    else err(isTerminal ? `\r\u001b[2K${printable(line)}` : `${printable(line)}\n`)
  }
}

/** Whether help was printed: with exit code 0 on request, otherwise because the command is missing. */
function isHelp({ code }: CommanderError): boolean {
  return code === 'commander.helpDisplayed' || code === 'commander.help'
}

function failureOf(error: unknown): Failure {
  if (error instanceof Failure) return error
  if (error instanceof CommanderError) return usage(`${error.message.replace(/^error: /, '')} (see --help)`)
  return unexpected(error instanceof Error ? error.message : String(error), error)
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}
