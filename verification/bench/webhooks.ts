import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { webhookSchema } from '@postern/contracts'
import { startReceiver } from '../../services/sync/test/webhook-support.ts'
import { percentile, round } from './stats.ts'
import type { System } from './system.ts'

/** Events of one tenant go to each of its endpoints. One endpoint hangs, and one fails. */
export interface WebhookSpeed {
  readonly events: number
  readonly endpoints: number
  readonly perSecond: number
  readonly healthyDeliveries: number
  /** From the commit of the change to its arrival at a healthy endpoint, in seconds. */
  readonly p50: number
  readonly p99: number
  /** Resident memory of sync after a fifth of the events, and the largest after that. */
  readonly earlyMiB: number | undefined
  readonly lateMiB: number | undefined
}

const arriveWithinMs = 120_000

export async function measureWebhooks(
  { stack, sql }: System,
  { events, endpoints, perSecond }: { readonly events: number; readonly endpoints: number; readonly perSecond: number },
): Promise<WebhookSpeed> {
  const delays: number[] = []
  const receiver = await startReceiver({
    '/hangs': () => undefined,
    '/fails': (_, response) => void response.writeHead(500).end(),
    ...Object.fromEntries(
      Array.from({ length: endpoints }, (_none, at) => [
        `/${at}`,
        (
          received: { readonly body: { readonly timestamp: string } },
          response: { writeHead(status: number): { end(): unknown } },
        ) => {
          delays.push((Date.now() - Date.parse(received.body.timestamp)) / 1000)
          response.writeHead(204).end()
        },
      ]),
    ),
  })
  try {
    await stack.restart('sync', { POSTERN_SYNC_NETWORKS: '127.0.0.1/32' })
    const { id: tenantId } = await stack.createTenant()
    const person = { tenantId, kind: 'user', id: 'ada', label: 'Ada Lund', scopes: [], roles: ['admin'] } as const
    const paths = Array.from({ length: endpoints }, (_none, at) =>
      at === 0 ? '/hangs' : at === 1 ? '/fails' : `/${at}`,
    )
    for (const path of paths) {
      const body = { url: receiver.url + path, events: ['*'], ca: receiver.ca }
      const answer = await stack.caller('sync').call(person, 'POST', '/api/v1/webhooks', { body })
      webhookSchema.parse(answer.json)
    }
    const { pid } = stack.process('sync')
    let earlyMiB: number | undefined
    let lateMiB: number | undefined
    const look = async (made: number): Promise<void> => {
      const now = await memoryOf(pid)
      if (made <= events / 5) earlyMiB = now
      else if (now !== undefined) lateMiB = Math.max(lateMiB ?? 0, now)
    }
    const startedAt = performance.now()
    for (let made = 0; made < events; made += 1) {
      await sql.query(endRun, [tenantId])
      if (made % perSecond === 0) await look(made)
      const ahead = (made / perSecond) * 1000 - (performance.now() - startedAt)
      if (ahead > 0) await delay(ahead)
    }
    const wanted = events * (endpoints - 2)
    const until = performance.now() + arriveWithinMs
    while (delays.length < wanted && performance.now() < until) await delay(200)
    await look(events)
    if (delays.length < wanted) throw new Error(`only ${delays.length} of ${wanted} deliveries arrived`)
    return {
      events,
      endpoints,
      perSecond,
      healthyDeliveries: delays.length,
      p50: round(percentile(delays, 0.5)),
      p99: round(percentile(delays, 0.99)),
      earlyMiB,
      lateMiB,
    }
  } finally {
    await receiver.close()
  }
}

const endRun = `
  insert into sync.run (tenant_id, source, status, finished_at, created_by_type, created_by_id, created_by_label, request_id)
  values ($1, 'inline', 'succeeded', now(), 'user', 'ada', 'Ada Lund', 'bench')`

async function memoryOf(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]
  return kibibytes === undefined ? undefined : Math.round(Number(kibibytes) / 1024)
}
