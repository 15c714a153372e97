import { type ApiKey, type ApiKeyUsage, apiKeyEventSchema, apiKeySchema, apiKeyUsageSchema } from '@postern/contracts'
import type { OperatorService } from '../operator-service.ts'
import { parseAnswer } from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { keysPath } from './find-key.ts'

interface RotatedPair {
  readonly old: KeyTraffic
  readonly successor: KeyTraffic
}

interface KeyTraffic {
  readonly key: ApiKey
  readonly days: ApiKeyUsage['days']
}

/** Returns a key and the one that replaces it, with the traffic of both; undefined unless both work. */
export async function findRotation(
  service: OperatorService,
  { key, tenantId }: { readonly key: ApiKey; readonly tenantId: string },
): Promise<RotatedPair | undefined> {
  if (key.state !== 'active') return undefined
  const successorId = await findSuccessorId(service, { key, tenantId })
  const oldId = successorId === undefined ? key.rotated_from : key.id
  if (oldId === null) return undefined
  const [old, successor] = await Promise.all(
    [oldId, successorId ?? key.id].map(async (id) => await readTraffic(service, { id, tenantId })),
  )
  if (old?.key.state !== 'active' || successor?.key.state !== 'active') return undefined
  return { old, successor }
}

export function formatRotation({ old, successor }: RotatedPair): string {
  const rows = [rowOf('old key', old), rowOf('new key', successor)]
  return formatTable(['ROTATION', 'ID', 'LAST USED', 'EXPIRES', 'ACCEPTED IN 30 DAYS', 'REFUSED'], rows)
}

/** Looks at the newest 200 events: a key has one active successor at most. */
async function findSuccessorId(
  service: OperatorService,
  { key, tenantId }: { readonly key: ApiKey; readonly tenantId: string },
): Promise<string | undefined> {
  const { body } = await service.call({ method: 'GET', target: `${keysPath}/${key.id}/events?limit=200`, tenantId })
  const events = parseAnswer(apiKeyEventSchema.array(), body)
  const id = events.find(({ detail }) => typeof detail['rotated_to'] === 'string')?.detail['rotated_to']
  if (typeof id !== 'string') return undefined
  const { body: found } = await service.call({ method: 'GET', target: `${keysPath}/${id}`, tenantId })
  return parseAnswer(apiKeySchema, found).state === 'active' ? id : undefined
}

async function readTraffic(
  service: OperatorService,
  { id, tenantId }: { readonly id: string; readonly tenantId: string },
): Promise<KeyTraffic> {
  const [{ body: key }, { body: usage }] = await Promise.all([
    service.call({ method: 'GET', target: `${keysPath}/${id}`, tenantId }),
    service.call({ method: 'GET', target: `${keysPath}/${id}/usage`, tenantId }),
  ])
  return { key: parseAnswer(apiKeySchema, key), days: parseAnswer(apiKeyUsageSchema, usage).days }
}

function rowOf(name: string, { key, days }: KeyTraffic): string[] {
  const accepted = days.reduce((sum, { requests }) => sum + requests, 0)
  const refused = days.reduce((sum, { refusals }) => sum + refusals, 0)
  return [name, key.id, moment(key.last_used_at), moment(key.expires_at), String(accepted), String(refused)]
}
