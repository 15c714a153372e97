import { spawn } from 'node:child_process'
import { once } from 'node:events'

const longestMs = 15 * 60_000
const shown = 6000

export class CommandError extends Error {
  override readonly name = 'CommandError'
}

interface Where {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Returns the end of the output. Throws a CommandError with it if the command fails. */
export async function run(command: string, args: readonly string[], { cwd, env = {} }: Where): Promise<string> {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: longestMs,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-shown)
    })
  }
  const failure = await Promise.race([
    once(child, 'close').then(() =>
      child.exitCode === 0 ? undefined : `ended with ${child.exitCode ?? child.signalCode}`,
    ),
    once(child, 'error').then(([error]) => String(error)),
  ])
  if (failure !== undefined) throw new CommandError(`${command} ${args.join(' ')} ${failure}\n${output}`)
  return output
}

export async function isAt(program: string): Promise<boolean> {
  const version = program === 'go' ? ['version'] : ['--version']
  try {
    await run(program, version, { cwd: '.' })
    return true
  } catch (error) {
    if (error instanceof CommandError) return false
    throw error
  }
}
