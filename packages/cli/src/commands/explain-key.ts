import { explanationSchema } from '@postern/contracts'
import { type CommandContext, parseAnswer, printJson, withKeysService } from '../session.ts'
import { table } from '../table.ts'
import { type KeyOptions, findKey, keysPath as path } from './find-key.ts'

/** Shows what a gateway would decide about a request, step by step. */
export async function explainRequest(
  context: CommandContext,
  id: string,
  options: KeyOptions & { readonly method: string; readonly path: string; readonly address: string },
): Promise<void> {
  const { method, path: asked, address } = options
  const explained = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const request = { method: method.toUpperCase(), path: asked, address }
    const target = `${path}/${key.id}/explain`
    const { body } = await service.call({ method: 'POST', target, tenantId, body: request })
    return parseAnswer(explanationSchema, body)
  })
  if (options.json) {
    printJson(context, explained)
    return
  }
  const { decision, status, code, steps } = explained
  const outcome = decision === 'accepted' ? 'accepted' : `refused: ${status} ${code}`
  const rows = steps.map(({ step, outcome: result, detail }) => [step, result, detail])
  context.print(`${outcome}\n\n${table(['STEP', 'RESULT', 'DETAIL'], rows)}`)
}
