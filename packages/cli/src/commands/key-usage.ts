import { type ApiKeyUsage, apiKeySchema, apiKeyUsageSchema } from '@postern/contracts'
import { type CommandContext, parseAnswer, printJson, withKeysService } from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { type KeyOptions, findKey, keysPath } from './find-key.ts'

export async function showUsage(context: CommandContext, id: string, options: KeyOptions): Promise<void> {
  const shown = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const { body } = await service.call({ method: 'GET', target: `${keysPath}/${key.id}/usage`, tenantId })
    return parseAnswer(apiKeyUsageSchema, body)
  })
  if (options.json) printJson(context, shown)
  else context.print(formatUsage(shown))
}

/** Narrows a key to the scopes that its use suggests. Returns when every gateway enforces it. */
export async function rightSizeKey(context: CommandContext, id: string, options: KeyOptions): Promise<void> {
  const result = await withKeysService(context.env, async (service) => {
    const { key, tenantId, etag } = await findKey(service, id, options.tenant)
    const { body } = await service.call({ method: 'GET', target: `${keysPath}/${key.id}/usage`, tenantId })
    const { right_sizing: size } = parseAnswer(apiKeyUsageSchema, body)
    if (size.suggested_scopes === null) return { key, size }
    const { body: changed } = await service.call({
      method: 'PATCH',
      target: `${keysPath}/${key.id}`,
      tenantId,
      ...(etag === undefined ? {} : { ifMatch: etag }),
      body: { scopes: size.suggested_scopes },
      noResponseAdvice: 'The key may be narrowed. Repeat the command; that is safe',
    })
    return { key: parseAnswer(apiKeySchema, changed), size }
  })
  if (options.json) printJson(context, result.key)
  else context.print(`${formatSize(result.size)}\n\nScopes of the key: ${result.key.scopes.join(' ')}`)
}

function formatSize(size: ApiKeyUsage['right_sizing']): string {
  const used = `The key used ${size.routes_used} of the ${size.routes_callable} routes that it can call, since ${moment(size.counted_from)}.`
  if (!size.complete) return `${used} After 30 days, scopes that it does not need are listed.`
  const { unneeded_scopes: unneeded } = size
  return `${used} ${unneeded.length === 0 ? 'It needed every scope.' : `Not needed: ${unneeded.join(' ')}.`}`
}

function formatUsage({
  right_sizing: size,
  days,
  addresses,
  refused,
  other_refusals: other,
  last_refusals: last,
}: ApiKeyUsage): string {
  const requests = days.reduce((sum, day) => sum + day.requests, 0)
  const refusals = days.reduce((sum, day) => sum + day.refusals, 0)
  const parts = [`In the last ${days.length} days: ${requests} accepted, ${refusals} refused.`, formatSize(size)]
  const places = addresses.map((each) => [
    each.address,
    moment(each.first_used_at),
    moment(each.last_used_at),
    String(each.requests),
    String(each.refusals),
  ])
  if (places.length > 0) parts.push(formatTable(['ADDRESS', 'FIRST SEEN', 'LAST SEEN', 'ACCEPTED', 'REFUSED'], places))
  const reasons = refused.map(({ code, route, refusals: count, last_refused_at: at }) => [
    code,
    route ?? '-',
    String(count),
    moment(at),
  ])
  if (reasons.length > 0) parts.push(formatTable(['REASON', 'ROUTE', 'REFUSED', 'LAST'], reasons))
  if (other > 0) parts.push(`Refusals without address and route, because there were too many on one day: ${other}.`)
  const rows = last.map(({ at, code, method, route, address, request_id: request }) => [
    moment(at),
    code,
    `${method} ${route ?? '-'}`,
    address,
    request,
  ])
  if (rows.length > 0) parts.push(formatTable(['AT', 'REASON', 'REQUEST', 'FROM', 'REQUEST ID'], rows))
  return parts.join('\n\n')
}
