import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/**
 * Parses the arguments of an npm script. Prints `usage` and exits for `--help`; exits with code 2 and a sentence for unknown
 * options. Positionals must be among `names`.
 */
export function parseArguments<const Options extends ParseArgsOptionsConfig>(
  usage: string,
  options: Options,
  names: readonly string[],
) {
  if (process.argv.slice(2).some((argument) => argument === '--help' || argument === '-h')) {
    process.stdout.write(`${usage}\n`)
    process.exit(0)
  }
  try {
    const parsed = parseArgs({ options, allowPositionals: true })
    const unknown = parsed.positionals.filter((name) => !names.includes(name))
    if (unknown.length === 0) return parsed
    return exitWithUsage(`Unknown argument '${unknown.join(' ')}'.`, usage)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    // Node's advice about `--` follows the first sentence.
    const [problem = ''] = error.message.split(/(?<=')\. /)
    return exitWithUsage(`${problem}.`.replace('..', '.'), usage)
  }
}

/** Ends the process with code 2. */
export function exitWithUsage(problem: string, usage: string): never {
  process.stderr.write(`${problem}\n${usage}\n`)
  process.exit(2)
}
