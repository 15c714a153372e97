import { type Command, InvalidArgumentError } from 'commander'
import { exitCodeHelp } from '../exit-code.ts'

export const exampleId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'

export function addCommand(
  parent: Command,
  name: string,
  description: string,
  ...examples: readonly string[]
): Command {
  const command = parent.command(name).description(description).option('--json', 'print JSON: the resource of the API')
  return withExamples(command, ...examples).addHelpText('after', exitCodeHelp)
}

export function withExamples(command: Command, ...examples: readonly string[]): Command {
  return command.addHelpText(
    'after',
    `\nExamples:\n${examples.map((text) => `  npm run -s postern -- ${text}`).join('\n')}`,
  )
}

export const parseLimit = wholeNumberTo(9_999_999)

export function wholeNumberTo(most: number): (text: string) => number {
  return (text) => {
    const number = /^[1-9][0-9]{0,9}$/.test(text) ? Number(text) : Infinity
    if (number <= most) return number
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}.`)
  }
}
