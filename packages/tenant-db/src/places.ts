import { DatabaseUnavailable } from './sql-error.ts'

/** Shares the connections of a pool out among tenants. */
export interface Places {
  /** Takes a place. Undefined: there was one. Else resolves with it, or rejects with DatabaseUnavailable after a while. */
  enter(tenant: string): Promise<void> | undefined
  leave(tenant: string): void
  readonly waiting: number
}

/** In smaller pools a part for newcomers would be most of it. */
const leastShared = 8

/**
 * A quarter of `max` places is kept for tenants that have none, so that one tenant's slow statements hold up no other. Tenants that wait
 * are served in turn. A pool of fewer than eight places is not divided.
 */
export function createPlaces(max: number, withinMs: number): Places {
  const kept = max < leastShared ? 0 : Math.floor(max / 4)
  const held = new Map<string, number>()
  const queues = new Map<string, (() => void)[]>()
  let free = max
  let waiting = 0

  const mayEnter = (tenant: string): boolean => free > (held.has(tenant) ? kept : 0)

  function take(tenant: string): void {
    free -= 1
    held.set(tenant, (held.get(tenant) ?? 0) + 1)
  }

  function remove(tenant: string, queue: (() => void)[], enter: () => void): void {
    queue.splice(queue.indexOf(enter), 1)
    waiting -= 1
    if (queue.length === 0) queues.delete(tenant)
  }

  /** Serves the first tenant that may enter, which goes to the end of the line. */
  function serveOne(): boolean {
    for (const [tenant, queue] of queues) {
      const [enter] = queue
      if (enter === undefined || !mayEnter(tenant)) continue
      queues.delete(tenant)
      queues.set(tenant, queue)
      remove(tenant, queue, enter)
      enter()
      return true
    }
    return false
  }

  async function wait(tenant: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const queue = queues.get(tenant) ?? []
    const timer = setTimeout(() => {
      remove(tenant, queue, enter)
      reject(new DatabaseUnavailable('no database connection became free'))
    }, withinMs)
    const enter = (): void => {
      clearTimeout(timer)
      take(tenant)
      resolve()
    }
    queue.push(enter)
    queues.set(tenant, queue)
    waiting += 1
    await promise
  }

  return {
    enter: (tenant) => {
      if (queues.has(tenant) || !mayEnter(tenant)) return wait(tenant)
      take(tenant)
      return undefined
    },
    leave: (tenant) => {
      free += 1
      const left = (held.get(tenant) ?? 1) - 1
      if (left === 0) held.delete(tenant)
      else held.set(tenant, left)
      while (waiting > 0 && serveOne());
    },
    get waiting() {
      return waiting
    },
  }
}
