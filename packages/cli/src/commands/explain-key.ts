import { type Explanation, explanationSchema } from '@postern/contracts'
import { usageError } from '../cli-error.ts'
import { type CommandContext, parseAnswer, printJson, withKeysService } from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { type KeyOptions, findKey, keysPath } from './find-key.ts'

interface ExplainOptions extends KeyOptions {
  readonly request?: string
  readonly method?: string
  readonly path?: string
  readonly address?: string
}

export async function explainRequest(context: CommandContext, id: string, options: ExplainOptions): Promise<void> {
  const { request, method, path, address } = options
  const isAlone = method === undefined && path === undefined && address === undefined
  if (request === undefined ? path === undefined : !isAlone) {
    throw usageError('name the --path of a request, or only the id of a refused one with --request')
  }
  const body =
    request === undefined
      ? {
          path,
          ...(method === undefined ? {} : { method: method.toUpperCase() }),
          ...(address === undefined ? {} : { address }),
        }
      : { request_id: request }
  const explained = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const { body: answer } = await service.call({
      method: 'POST',
      target: `${keysPath}/${key.id}/explain`,
      tenantId,
      body,
    })
    return parseAnswer(explanationSchema, answer)
  })
  if (options.json) printJson(context, explained)
  else context.print(formatExplanation(explained))
}

function formatExplanation({ decision, status, code, steps, address, refusal, now }: Explanation): string {
  const outcome = decision === 'accepted' ? 'accepted' : `refused: ${status} ${code}`
  const rows = steps.map(({ step, outcome: result, detail }) => [step, result, detail])
  const asked =
    refusal === null
      ? `Checked for ${address === null ? 'any address, because the key was never used' : `the address ${address}`}.`
      : `Request ${refusal.request_id} at ${moment(refusal.at)}: ${refusal.method} ${refusal.route ?? '-'} from ${refusal.address}.`
  const present = now === null ? [] : [`Now: ${now.code === null ? now.decision : `${now.decision}: ${now.code}`}.`]
  return [outcome, asked, ...present].join('\n') + `\n\n${formatTable(['STEP', 'RESULT', 'DETAIL'], rows)}`
}
