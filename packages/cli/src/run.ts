import { CommanderError } from 'commander'
import { type ExitCode, exitCodes } from './exit-code.ts'
import { CliError, unexpectedError, usageError } from './cli-error.ts'
import { printable, printableJson, printableLines } from './printable.ts'
import { createProgram } from './program.ts'
import type { Environment } from './settings.ts'

export interface Output {
  out(text: string): void
  err(text: string): void
  /** A terminal's last line can be overwritten. */
  readonly isTerminal?: boolean
  input?(): Promise<string>
}

/** Returns the exit code and never throws. */
export async function run(args: readonly string[], env: Environment, output: Output): Promise<ExitCode> {
  const context = {
    env,
    // Texts come from servers and files.
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
    const failure = toCliError(error)
    const line = args.includes('--json')
      ? printableJson(JSON.stringify(failure.document))
      : `postern: ${printable(joinLines(failure.message))}`
    output.err(`${line}\n`)
    return failure.exitCode
  }
}

/** Shows progress in one line on a terminal, otherwise in a line for each change. */
function progressOf({ err, isTerminal = false }: Output): (line: string | undefined) => void {
  return (line) => {
    if (line === undefined) err(isTerminal ? '\n' : '')
    else err(isTerminal ? `\r\u001b[2K${printable(line)}` : `${printable(line)}\n`)
  }
}

/** Exit code 0 on request, otherwise the command is missing. */
function isHelp({ code }: CommanderError): boolean {
  return code === 'commander.helpDisplayed' || code === 'commander.help'
}

function toCliError(error: unknown): CliError {
  if (error instanceof CliError) return error
  if (error instanceof CommanderError) return usageError(`${error.message.replace(/^error: /, '')} (see --help)`)
  return unexpectedError(error instanceof Error ? error.message : String(error), error)
}

function joinLines(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}
