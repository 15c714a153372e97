import { reportLeakedKeys } from '@postern/client'
import { maxLeakedKeys } from '@postern/contracts'
import { describeGatewayError } from '../gateway.ts'
import { readKeyValues } from '../key-values.ts'
import { usageError } from '../cli-error.ts'
import { printable } from '../printable.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { readGatewayUrl } from '../settings.ts'

/** Reports the keys in a text on standard input, without credentials. Those that exist are revoked. */
export async function reportLeak(context: CommandContext, source: string, options: OutputOptions): Promise<void> {
  const values = await readKeyValues(context, source, 'keys report-leak')
  if (values.length > maxLeakedKeys)
    throw usageError(`standard input contains ${values.length} keys: report at most ${maxLeakedKeys} at a time`)
  const baseUrl = await readGatewayUrl(context.env)
  const receipt = await reportLeakedKeys({ baseUrl }, values).catch((error: unknown) => {
    throw describeGatewayError(error, baseUrl)
  })
  if (options.json) {
    printJson(context, receipt)
    return
  }
  const count = receipt.values === 1 ? 'one value' : `${receipt.values} values`
  context.print(`reported ${count}: those that are keys are revoked (receipt ${printable(receipt.id)})`)
}
