import type { Pool, QueryResultRow } from 'pg'
import type { Session, Tx } from './session.ts'
import { DatabaseUnavailableError } from './sql-error.ts'

/** A longer snapshot would keep PostgreSQL from vacuuming. */
const maxMs = 3_600_000
/** Much shorter than idle_in_transaction_session_timeout. */
const keepAliveMs = 3_000
const firstRows = 8
const partBytes = 4 * 1024 * 1024
const slotWithinMs = 15_000

/**
 * Reads a list in batches through a cursor. PostgreSQL verifies the assertion when the cursor opens, and it may expire
 * later. All followed lists use at most a quarter of the connections, or two.
 */
export async function* follow<Item>(
  pool: Pool,
  openSession: () => Promise<Session>,
  assertion: string,
  list: (tx: Tx) => Promise<readonly Item[]>,
  size: number,
): AsyncGenerator<readonly Item[]> {
  const releaseSlot = await acquireReaderSlot(pool, tenantOf(assertion))
  try {
    const session = await openSession()
    const keepAlive = setInterval(() => {
      void session.query({ text: 'select 1', values: [] }).catch(() => undefined)
    }, keepAliveMs)
    try {
      session.begin('read', assertion)
      yield* batches(session, list, size)
    } finally {
      clearInterval(keepAlive)
      // A connection that had a cursor is not reused.
      session.release()
    }
  } finally {
    releaseSlot()
  }
}

async function* batches<Item>(
  session: Session,
  list: (tx: Tx) => Promise<readonly Item[]>,
  size: number,
): AsyncGenerator<readonly Item[]> {
  // Prefers a plan with a fast first row, in the order of the index.
  await session.execute({ text: 'set local cursor_tuple_fraction = 0.00001', values: [] })
  let isOpen = false
  let isAtEnd = false
  let count = firstRows
  const tx: Tx = {
    query: async <Row extends QueryResultRow>({ text, values }: Parameters<Tx['query']>[0]) => {
      if (!isOpen) await session.execute({ text: `declare following no scroll cursor for ${text}`, values })
      isOpen = true
      const wanted = Math.min(size, count)
      const rows = await session.query<Row>({ text: `fetch forward ${wanted} from following`, values: [] })
      isAtEnd = rows.length < wanted
      count = Math.max(1, Math.min(2 * wanted, Math.floor((partBytes * rows.length) / (1 + lengthOf(rows)))))
      return rows
    },
    execute: async () => await Promise.reject(new Error('only one statement that reads can be followed')),
  }
  const deadline = performance.now() + maxMs
  while (!isAtEnd) {
    if (performance.now() > deadline) throw new Error('a list was read for more than an hour')
    yield await list(tx)
  }
}

function lengthOf(rows: readonly QueryResultRow[]): number {
  let length = 0
  for (const row of rows) {
    for (const value of Object.values(row)) {
      if (typeof value === 'string') length += value.length
      else if (typeof value === 'object' && value !== null) length += JSON.stringify(value).length
    }
  }
  return length
}

interface Waiting {
  readonly tenant: string
  readonly enter: () => void
}

interface ReaderSlots {
  free: number
  readonly maxOfTenant: number
  readonly held: Map<string, number>
  readonly waiting: Waiting[]
}

const slotsOfPool = new WeakMap<Pool, ReaderSlots>()

function newReaderSlots(pool: Pool): ReaderSlots {
  const free = Math.max(2, Math.floor(pool.options.max / 4))
  return { free, maxOfTenant: Math.floor(free / 2), held: new Map(), waiting: [] }
}

/** Waits for a slot. Returns a function that releases it. */
async function acquireReaderSlot(pool: Pool, tenant: string): Promise<() => void> {
  const slots = slotsOfPool.get(pool) ?? newReaderSlots(pool)
  slotsOfPool.set(pool, slots)
  const { held, waiting } = slots
  const mayEnter = (who: string): boolean => slots.free > 0 && (held.get(who) ?? 0) < slots.maxOfTenant
  const occupy = (): void => {
    slots.free -= 1
    held.set(tenant, (held.get(tenant) ?? 0) + 1)
  }
  const leave = (): void => {
    slots.free += 1
    const left = (held.get(tenant) ?? 1) - 1
    if (left === 0) held.delete(tenant)
    else held.set(tenant, left)
    const next = waiting.findIndex((other) => mayEnter(other.tenant))
    if (next >= 0) waiting.splice(next, 1)[0]?.enter()
  }
  if (mayEnter(tenant)) {
    occupy()
    return leave
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const here: Waiting = {
    tenant,
    enter: () => {
      occupy()
      resolve()
    },
  }
  const timer = setTimeout(() => {
    waiting.splice(waiting.indexOf(here), 1)
    reject(new DatabaseUnavailableError('too many lists are followed at once'))
  }, slotWithinMs)
  waiting.push(here)
  await promise
  clearTimeout(timer)
  return leave
}

/** Returns the tenant id, only for grouping: PostgreSQL decides whose data is read. */
export function tenantOf(assertion: string): string {
  return assertion.split('.')[2] ?? ''
}
