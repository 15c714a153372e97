import { createOperatorCredential, isOperatorName } from '@postern/signed-context'
import { usageError } from '../cli-error.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { readOperatorRing } from '../settings.ts'

/** Derives a credential from the shared ring, without sending or storing anything. */
export async function createOperator(context: CommandContext, name: string, { json }: OutputOptions): Promise<void> {
  if (!isOperatorName(name)) {
    throw usageError(
      'the name of an operator must be 1 to 23 of a-z, 0-9 and -, beginning with a letter, and not operator or system',
    )
  }
  const credential = createOperatorCredential(await readOperatorRing(context.env), name)
  if (json) printJson(context, { name, credential })
  else context.print(credential)
}
