import { DatabaseUnavailableError } from './sql-error.ts'

export type Access = 'read' | 'write'

export interface ConnectionSlots {
  /** Returns undefined if a slot was free. Rejects with DatabaseUnavailableError if none becomes free in time. */
  enter(tenant: string, access: Access): Promise<void> | undefined
  leave(tenant: string, access: Access): void
  readonly waiting: number
}

/** In smaller pools, the reserve would be most of the pool. */
const leastShared = 8

/**
 * Reserves a quarter of `max` for tenants without a connection. Reads of one tenant use at most a third. Small pools are
 * not divided.
 */
export function createConnectionSlots(max: number, withinMs: number): ConnectionSlots {
  const reserved = max < leastShared ? 0 : Math.floor(max / 4)
  const maxReads = max < leastShared ? max : Math.floor(max / 3)
  const held = new Map<string, number>()
  const reading = new Map<string, number>()
  /** One for each tenant and access, so that writes do not wait behind reads. */
  const queues = new Map<string, Queue>()
  let free = max
  let waiting = 0

  const mayEnter = (tenant: string, access: Access): boolean =>
    free > (held.has(tenant) ? reserved : 0) && (access === 'write' || (reading.get(tenant) ?? 0) < maxReads)

  function acquire(tenant: string, access: Access): void {
    free -= 1
    add(held, tenant, 1)
    if (access === 'read') add(reading, tenant, 1)
  }

  function remove(key: string, { entries }: Queue, enter: () => void): void {
    entries.splice(entries.indexOf(enter), 1)
    waiting -= 1
    if (entries.length === 0) queues.delete(key)
  }

  function serveOne(): boolean {
    for (const [key, queue] of queues) {
      const [enter] = queue.entries
      if (enter === undefined || !mayEnter(queue.tenant, queue.access)) continue
      queues.delete(key)
      queues.set(key, queue)
      remove(key, queue, enter)
      enter()
      return true
    }
    return false
  }

  async function wait(tenant: string, access: Access): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const key = keyOf(tenant, access)
    const queue = queues.get(key) ?? { tenant, access, entries: [] }
    const timer = setTimeout(() => {
      remove(key, queue, enter)
      reject(new DatabaseUnavailableError('no database connection became free'))
    }, withinMs)
    const enter = (): void => {
      clearTimeout(timer)
      acquire(tenant, access)
      resolve()
    }
    queue.entries.push(enter)
    queues.set(key, queue)
    waiting += 1
    await promise
  }

  return {
    enter: (tenant, access) => {
      if (queues.has(keyOf(tenant, access)) || !mayEnter(tenant, access)) return wait(tenant, access)
      acquire(tenant, access)
      return undefined
    },
    leave: (tenant, access) => {
      free += 1
      add(held, tenant, -1)
      if (access === 'read') add(reading, tenant, -1)
      while (waiting > 0 && serveOne());
    },
    get waiting() {
      return waiting
    },
  }
}

interface Queue {
  readonly tenant: string
  readonly access: Access
  readonly entries: (() => void)[]
}

function keyOf(tenant: string, access: Access): string {
  return `${access} ${tenant}`
}

function add(counts: Map<string, number>, tenant: string, change: 1 | -1): void {
  const count = (counts.get(tenant) ?? 0) + change
  if (count === 0) counts.delete(tenant)
  else counts.set(tenant, count)
}
