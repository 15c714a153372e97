import { type ApiKeyUsage, apiKeyUsageSchema } from '@postern/contracts'
import { type CommandContext, parseAnswer, printJson, withKeysService } from '../session.ts'
import { moment, table } from '../table.ts'
import { type KeyOptions, findKey, keysPath } from './find-key.ts'

/** Shows where a key was used in the last 30 days, and what was refused. */
export async function showUsage(context: CommandContext, id: string, options: KeyOptions): Promise<void> {
  const shown = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const { body } = await service.call({ method: 'GET', target: `${keysPath}/${key.id}/usage`, tenantId })
    return parseAnswer(apiKeyUsageSchema, body)
  })
  if (options.json) printJson(context, shown)
  else context.print(formatUsage(shown))
}

function formatUsage({ days, addresses, refused, other_refusals: other, last_refusals: last }: ApiKeyUsage): string {
  const requests = days.reduce((sum, day) => sum + day.requests, 0)
  const refusals = days.reduce((sum, day) => sum + day.refusals, 0)
  const parts = [`In the last ${days.length} days: ${requests} accepted, ${refusals} refused.`]
  const places = addresses.map((each) => [
    each.address,
    moment(each.first_used_at),
    moment(each.last_used_at),
    String(each.requests),
    String(each.refusals),
  ])
  if (places.length > 0) parts.push(table(['ADDRESS', 'FIRST SEEN', 'LAST SEEN', 'ACCEPTED', 'REFUSED'], places))
  const reasons = refused.map(({ code, route, refusals: count, last_refused_at: at }) => [
    code,
    route ?? '-',
    String(count),
    moment(at),
  ])
  if (reasons.length > 0) parts.push(table(['REASON', 'ROUTE', 'REFUSED', 'LAST'], reasons))
  if (other > 0) parts.push(`Without address and route, because too many were refused on one day: ${other}.`)
  const rows = last.map(({ at, code, method, route, address, request_id: request }) => [
    moment(at),
    code,
    `${method} ${route ?? '-'}`,
    address,
    request,
  ])
  if (rows.length > 0) parts.push(table(['AT', 'REASON', 'REQUEST', 'FROM', 'REQUEST ID'], rows))
  return parts.join('\n\n')
}
