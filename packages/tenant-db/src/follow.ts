import type { Pool, QueryResultRow } from 'pg'
import { acquire } from './pool.ts'
import type { Tx } from './session.ts'
import { Session } from './session.ts'
import { DatabaseUnavailable } from './sql-error.ts'

/** A snapshot that is held longer keeps PostgreSQL from clearing away what has been changed since. */
const longestMs = 3_600_000
/** Far less than idle_in_transaction_session_timeout: whoever reads slowly must not lose the transaction. */
const stayAwakeMs = 3_000
/** How long one waits for another to end. */
const placeWithinMs = 15_000

/**
 * Runs the one statement that `list` issues with a cursor, and gives what `list` makes of its rows, `size` of them at a
 * time: `list` is called for each batch, and the statement that it then issues brings the next rows. PostgreSQL has
 * believed the assertion when the cursor was opened, hence it need not live as long as the reading does.
 *
 * It holds a connection all the while, so at most a quarter of them are used for it at once.
 */
export async function* follow<Item>(
  pool: Pool,
  queryTimeoutMs: number,
  assertion: string,
  list: (tx: Tx) => Promise<readonly Item[]>,
  size: number,
): AsyncGenerator<readonly Item[]> {
  const leave = await enter(pool)
  try {
    const session = new Session(await acquire(pool), queryTimeoutMs)
    const awake = setInterval(() => {
      void session.query({ text: 'select 1', values: [] }).catch(() => undefined)
    }, stayAwakeMs)
    try {
      session.begin('read', assertion)
      yield* batches(session, list, size)
    } finally {
      clearInterval(awake)
      // A connection that has had a cursor is not used again.
      session.giveBack()
    }
  } finally {
    leave()
  }
}

async function* batches<Item>(
  session: Session,
  list: (tx: Tx) => Promise<readonly Item[]>,
  size: number,
): AsyncGenerator<readonly Item[]> {
  // A plan that gives the first rows at once, not all of them soonest: by the index of the order.
  await session.execute({ text: 'set local cursor_tuple_fraction = 0.00001', values: [] })
  let isOpen = false
  let isOver = false
  const tx: Tx = {
    query: async <Row extends QueryResultRow>({ text, values }: Parameters<Tx['query']>[0]) => {
      if (!isOpen) await session.execute({ text: `declare following no scroll cursor for ${text}`, values })
      isOpen = true
      const rows = await session.query<Row>({ text: `fetch forward ${size} from following`, values: [] })
      isOver = rows.length < size
      return rows
    },
    execute: async () => await Promise.reject(new Error('only one statement that reads can be followed')),
  }
  const until = performance.now() + longestMs
  while (!isOver) {
    if (performance.now() > until) throw new Error('a list was read for more than an hour')
    yield await list(tx)
  }
}

interface Places {
  free: number
  readonly waiting: (() => void)[]
}

const placesOf = new WeakMap<Pool, Places>()

/** Waits for a place among those that hold a connection for long; gives what frees it again. */
async function enter(pool: Pool): Promise<() => void> {
  const places = placesOf.get(pool) ?? { free: Math.max(1, Math.floor(pool.options.max / 4)), waiting: [] }
  placesOf.set(pool, places)
  const leave = (): void => {
    const next = places.waiting.shift()
    if (next === undefined) places.free += 1
    else next()
  }
  if (places.free > 0) {
    places.free -= 1
    return leave
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(() => {
    places.waiting.splice(places.waiting.indexOf(resolve), 1)
    reject(new DatabaseUnavailable('too many long readings at once'))
  }, placeWithinMs)
  places.waiting.push(resolve)
  await promise
  clearTimeout(timer)
  return leave
}
