import { keyValuePattern } from '@postern/contracts'
import { usageError } from './cli-error.ts'
import type { CommandContext } from './session.ts'

const everyKey = new RegExp(keyValuePattern, 'g')

/** Returns the distinct keys on standard input. Shells and process lists would keep a key on the command line. */
export async function readKeyValues(
  context: CommandContext,
  source: string,
  command: string,
): Promise<readonly [string, ...string[]]> {
  // Never show the argument: it may be a key.
  if (source !== '-')
    throw usageError(`${command} reads standard input: use \`${command} -\`, paste the text and press Ctrl-D`)
  if (context.readInput === undefined) throw usageError('standard input cannot be read')
  const [first, ...others] = new Set((await context.readInput()).match(everyKey))
  if (first === undefined)
    throw usageError('standard input contains no whole key: a key is postern_ and 49 letters and digits')
  return [first, ...others]
}
