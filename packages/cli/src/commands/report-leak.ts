import { reportLeakedKeys } from '@postern/client'
import { keyValuePattern, maxLeakedKeys } from '@postern/contracts'
import { usageError } from '../cli-error.ts'
import { printable } from '../printable.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { readGatewayUrl } from '../settings.ts'
import { failureOf } from './connectors.ts'

const everyKey = new RegExp(keyValuePattern, 'g')

/** Reports the keys in a text on standard input, without credentials. Those that exist are revoked. */
export async function reportLeak(context: CommandContext, source: string, options: OutputOptions): Promise<void> {
  // Never show the argument: it may be a key.
  if (source !== '-') {
    throw usageError(
      'keys report-leak reads from standard input: use `keys report-leak -`, paste the keys and press Ctrl-D',
    )
  }
  if (context.readInput === undefined) throw usageError('standard input cannot be read')
  const values = [...new Set((await context.readInput()).match(everyKey))]
  if (values.length === 0)
    throw usageError('standard input contains no whole key: a key is postern_ and 49 letters and digits')
  if (values.length > maxLeakedKeys)
    throw usageError(`standard input contains ${values.length} keys: report at most ${maxLeakedKeys} at a time`)
  const baseUrl = await readGatewayUrl(context.env)
  const receipt = await reportLeakedKeys({ baseUrl }, values).catch((error: unknown) => {
    throw failureOf(error, baseUrl)
  })
  if (options.json) {
    printJson(context, receipt)
    return
  }
  const count = receipt.values === 1 ? 'one value' : `${receipt.values} values`
  context.print(`reported ${count}: those that are keys are revoked (receipt ${printable(receipt.id)})`)
}
