import { CommanderError } from 'commander'
import { type ExitCode, exitCodes } from './exit-code.ts'
import { Failure, unexpected, usage } from './failure.ts'
import { printable, printableJson, printableLines } from './printable.ts'
import { createProgram } from './program.ts'
import type { Environment } from './settings.ts'

/** Where a command's texts go. */
export interface Output {
  out(text: string): void
  err(text: string): void
  /** Whether `err` is a terminal, on which a line can be written over. */
  readonly isTerminal?: boolean
  /** All of standard input, for commands that are told to read it. */
  input?(): Promise<string>
}

/** Runs one command line and gives its exit code; nothing is thrown. */
export async function run(args: readonly string[], env: Environment, output: Output): Promise<ExitCode> {
  const context = {
    env,
    // Every way out is cleaned here: texts come from servers and files.
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

/** On a terminal one line that changes, elsewhere a line for each change. */
function progressOf({ err, isTerminal = false }: Output): (line: string | undefined) => void {
  return (line) => {
    if (line === undefined) err(isTerminal ? '\n' : '')
    else err(isTerminal ? `\r\u001b[2K${printable(line)}` : `${printable(line)}\n`)
  }
}

/** The help itself is what was printed: with exit code 0 when it was asked for, else because no command was named. */
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
