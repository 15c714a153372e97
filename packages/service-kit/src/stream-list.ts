import { parseAssertion } from '@postern/signed-context'
import { isTooLarge, shrinkFactor } from './fitting-page.ts'
import { type RequestContext, ShareExceededError } from './tenant-shares.ts'

const firstItems = 16

export async function* allPages<Item, Key>(
  { share }: RequestContext,
  after: Key | undefined,
  size: number,
  load: (after: Key | undefined, size: number) => Promise<readonly Item[]>,
  keyOf: (item: Item) => Key,
): AsyncGenerator<Item> {
  let from = after
  const read = adaptiveReader<Item>(size, share)
  for (;;) {
    const behind = from
    const { items, isLast } = await read(async (count) => await load(behind, count))
    yield* items
    const last = items.at(-1)
    if (last === undefined || isLast) return
    from = keyOf(last)
  }
}

export interface ListSource<Tx> {
  read<T>(tenant: RequestContext, fn: (tx: Tx) => Promise<T>): Promise<T>
  follow<Item>(
    tenant: RequestContext,
    list: (tx: Tx) => Promise<readonly Item[]>,
    size: number,
  ): AsyncIterable<readonly Item[]>
}

/** If less remains of the assertion, the rest is read as one result, which outlives it. */
const minAssertionSeconds = 30

const noLimit = 2_147_483_647

/** Reads pages while the assertion is valid, then the rest as one open result. */
export async function* streamList<Item, Key, Tx>(
  source: ListSource<Tx>,
  context: RequestContext,
  parts: {
    readonly after: Key | undefined
    readonly size: number
    list(tx: Tx, after: Key | undefined, limit: number): Promise<readonly Item[]>
    keyOf(item: Item): Key
  },
): AsyncGenerator<Item> {
  const { size, list, keyOf } = parts
  const until = ((parseAssertion(context.assertion)?.expiresAt ?? 0) - minAssertionSeconds) * 1000
  let { after } = parts
  const read = adaptiveReader<Item>(size, context.share)
  while (Date.now() < until) {
    const from = after
    const { items, isLast } = await read(
      async (count) => await source.read(context, async (tx) => list(tx, from, count)),
    )
    yield* items
    const last = items.at(-1)
    if (last === undefined || isLast) return
    after = keyOf(last)
  }
  const from = after
  for await (const items of source.follow(context, async (tx) => list(tx, from, noLimit), size)) yield* items
}

/** Fewer than `size` items if they are too large. HOT PATH of exports. */
function adaptiveReader<Item>(
  size: number,
  share: RequestContext['share'],
): (load: (count: number) => Promise<readonly Item[]>) => Promise<{
  readonly items: readonly Item[]
  readonly isLast: boolean
}> {
  let count = Math.min(size, firstItems)
  let itemBytes: number | undefined
  let most = size
  async function loadInTurn(load: (count: number) => Promise<readonly Item[]>): Promise<readonly Item[]> {
    await share?.acquireRead(() => itemBytes && count * itemBytes)
    try {
      const items = await load(count)
      if (share !== undefined) itemBytes = share.rowBytes / Math.max(1, items.length)
      return items
    } finally {
      share?.releaseRead()
    }
  }

  return async (load) => {
    for (;;) {
      share?.releaseRows()
      try {
        const items = await loadInTurn(load)
        const isLast = items.length < count
        count = Math.min(most, count * 2)
        return { items, isLast }
      } catch (error) {
        if (!(isTooLarge(error) || error instanceof ShareExceededError) || count === 1) throw error
        if (isTooLarge(error)) most = Math.max(1, Math.floor(count / 2))
        count = Math.max(1, Math.floor(count / shrinkFactor))
      }
    }
  }
}
