import { readFile, readdir } from 'node:fs/promises'
import type { ManagedProcess, TestStack } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import type { Series } from './figures.ts'
import { type HeapMeter, openHeapMeter } from './heap.ts'

export interface Sampler {
  readonly series: readonly Series[]
  /** Every sixth time, memory is measured right after a garbage collection. */
  look(): Promise<void>
  begin(): void
  close(): Promise<void>
}

const mebibyte = 1024 * 1024
const looksAHeap = 6

export async function openSampler(stack: TestStack, processes: readonly ManagedProcess[]): Promise<Sampler> {
  const meters = new Map<string, HeapMeter>()
  for (const process of processes) meters.set(process.name, await openHeapMeter(process))
  const sql = new Client({ connectionString: stack.database.url('superuser'), application_name: 'soak' })
  await sql.connect()
  const redis = new Redis(stack.redis.url)
  const found = new Map<string, Series>()
  let beganAt = performance.now()
  let looks = 0

  function note(part: string, kind: Series['kind'], value: number): void {
    const name = `${part} ${kind}`
    const series = found.get(name) ?? { part, kind, points: [] }
    found.set(name, series)
    series.points.push({ at: performance.now() - beganAt, value })
  }

  async function lookAtProcess({ name, pid }: ManagedProcess, withHeap: boolean): Promise<void> {
    if (withHeap) {
      const bytes = await meters.get(name)?.leftAfterCollection()
      note(name, 'heap after collection', (bytes ?? Number.NaN) / mebibyte)
      // Between two collections memory follows the garbage.
      note(name, 'resident memory after collection', (await readStatus(pid, 'VmRSS')) / mebibyte)
    }
    note(name, 'file descriptors', (await readdir(`/proc/${pid}/fd`)).length)
  }

  async function lookAtPostgres(): Promise<void> {
    const { rows } = await sql.query<{ name: string; pids: number[] }>(
      `select application_name as name, array_agg(pid) as pids from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
       group by application_name`,
    )
    const pids = rows.flatMap((row) => row.pids)
    note('PostgreSQL', 'connections', pids.length)
    const all = await Promise.all(pids.map(async (pid) => await readStatus(pid, 'RssAnon').catch(() => Number.NaN)))
    // A session may end between the list and the look.
    const own = all.filter((bytes) => Number.isFinite(bytes))
    const sum = own.length === 0 ? Number.NaN : own.reduce((one, other) => one + other, 0)
    note('PostgreSQL', 'memory of sessions', sum / mebibyte)
  }

  async function lookAtRedis(): Promise<void> {
    const [keyspace, memory] = [await redis.info('keyspace'), await redis.info('memory')]
    // A Redis without keys has no such line.
    const [, keys, ending] = /keys=(\d+),expires=(\d+)/.exec(keyspace) ?? []
    note('Redis', 'keys', Number(keys))
    note('Redis', 'keys that stay for ever', Number(keys) - Number(ending))
    note('Redis', 'memory', Number(/^used_memory:(\d+)/m.exec(memory)?.[1]) / mebibyte)
    const clients = /^connected_clients:(\d+)/m.exec(await redis.info('clients'))?.[1]
    note('Redis', 'connections', Number(clients))
  }

  return {
    get series() {
      return [...found.values()]
    },
    look: async () => {
      const withHeap = looks % looksAHeap === 0
      looks += 1
      for (const process of processes) await lookAtProcess(process, withHeap)
      await lookAtPostgres()
      await lookAtRedis()
    },
    begin: () => {
      found.clear()
      looks = 0
      beganAt = performance.now()
    },
    close: async () => {
      for (const meter of meters.values()) meter.close()
      redis.disconnect()
      await sql.end()
    },
  }
}

/** Reads bytes from proc(5). */
async function readStatus(pid: number, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(String.raw`^${name}:\s+(\d+) kB`, 'm').exec(status)?.[1]) * 1024
}
