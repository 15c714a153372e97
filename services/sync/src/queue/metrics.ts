import type { Run } from '@postern/contracts'
import { queueNames, queueSchema } from '@postern/contracts/internal'
import type { Registry } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { Counter, Gauge } from '@prometheus-io/client'

const outcomes = ['succeeded', 'partial', 'failed', 'cancelled', 'needs_approval'] as const

const waitingRuns = {
  name: 'sync_waiting_runs',
  text: `select count(*)::int as runs, coalesce(extract(epoch from now() - min(start_after)), 0)::float8 as seconds
    from ${queueSchema}.job where name = $1 and state in ('created', 'retry') and start_after <= now()`,
  values: [queueNames.run],
}

interface Waiting {
  readonly runs: number
  readonly seconds: number
}

async function readWaiting(db: Pick<TenantDb, 'system'>): Promise<Waiting> {
  try {
    const [row] = await db.system(async (tx) => await tx.query<{ runs: number; seconds: number }>(waitingRuns))
    return { runs: row?.runs ?? 0, seconds: row?.seconds ?? 0 }
  } catch {
    // Unknown; the last value would be reported forever.
    return { runs: Number.NaN, seconds: Number.NaN }
  }
}

export function measureRuns(metrics: Registry, db: Pick<TenantDb, 'system'>): { ended(status: Run['status']): void } {
  const ended = new Counter({
    name: 'postern_sync_runs_total',
    help: 'Runs that a worker of this process ended, by outcome; needs_approval waits for a person',
    labelNames: ['outcome'],
    registers: [metrics],
  })
  for (const outcome of outcomes) ended.inc({ outcome }, 0)
  let reading: Promise<Waiting> | undefined
  const read = async (): Promise<Waiting> => {
    reading ??= readWaiting(db).finally(() => {
      reading = undefined
    })
    return await reading
  }
  const waiting: Gauge = new Gauge({
    name: 'postern_sync_queue_waiting',
    help: 'Runs of all processes that wait for a worker',
    registers: [metrics],
    async collect(): Promise<void> {
      waiting.set((await read()).runs)
    },
  })
  const oldest: Gauge = new Gauge({
    name: 'postern_sync_queue_oldest_seconds',
    help: 'How long the oldest waiting run has waited for a worker; 0 if no run waits',
    registers: [metrics],
    async collect(): Promise<void> {
      oldest.set((await read()).seconds)
    },
  })
  return {
    ended: (status) => {
      if (outcomes.some((known) => known === status)) ended.inc({ outcome: status })
    },
  }
}
