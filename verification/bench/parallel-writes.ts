import { randomUUID } from 'node:crypto'
import { type Cluster } from '@postern/local-stack/testing'
import { startDistantStandby } from './standby.ts'
import { round } from './stats.ts'
import type { System } from './system.ts'

export interface ParallelWrites {
  readonly clients: number
  /** In milliseconds; 0: none. */
  readonly standbyMs: number
  readonly ofOneTenant: number
  readonly ofManyTenants: number
  readonly ratio: number
  readonly failures: number
}

const path = '/api/v1/findings'
const scopes = ['read:findings', 'write:findings']
const crowd = 48

export async function measureParallelWrites(
  system: System,
  cluster: Cluster,
  { clients, seconds, rounds, standbyMs }: { clients: number; seconds: number; rounds: number; standbyMs: number },
): Promise<ParallelWrites[]> {
  const measure = async (delayMs: number): Promise<ParallelWrites> => {
    // New sessions use the database's current commit setting.
    await system.stack.restart('findings')
    const one = randomUUID()
    const many = Array.from({ length: clients }, () => randomUUID())
    const made = { one: 0, many: 0 }
    let failures = 0
    for (let turn = 0; turn <= rounds; turn += 1) {
      const ofMany = await create(system, { tenants: many, clients, seconds })
      const ofOne = await create(system, { tenants: [one], clients, seconds })
      failures += ofOne.failed
      if (turn === 0) continue
      made.many += ofMany.created
      made.one += ofOne.created
    }
    failures += (await create(system, { tenants: [one], clients: crowd, seconds })).failed
    return {
      clients,
      standbyMs: delayMs,
      ofOneTenant: round(made.one / rounds / seconds, 1),
      ofManyTenants: round(made.many / rounds / seconds, 1),
      ratio: round(made.one / made.many),
      failures,
    }
  }
  const near = await measure(0)
  const database = new URL(system.stack.database.url('superuser')).pathname.slice(1)
  const standby = await startDistantStandby(cluster, database, standbyMs)
  try {
    return [near, await measure(standbyMs)]
  } finally {
    await standby.stop()
    await system.stack.restart('findings')
  }
}

async function create(
  system: System,
  { tenants, clients, seconds }: { tenants: readonly string[]; clients: number; seconds: number },
): Promise<{ created: number; failed: number }> {
  const findings = system.stack.caller('findings')
  const end = performance.now() + seconds * 1000
  let [created, failed] = [0, 0]
  const client = async (number: number): Promise<void> => {
    const tenantId = tenants[number % tenants.length] ?? ''
    while (performance.now() < end) {
      const body = {
        title: 'Access is not recertified',
        condition: 'No recertification since January.',
        severity: 'low',
      }
      const { status } = await findings.call({ tenantId, scopes }, 'POST', path, { body })
      if (status === 201) created += 1
      else failed += 1
    }
  }
  await Promise.all(Array.from({ length: clients }, async (_none, number) => await client(number)))
  return { created, failed }
}
