import type { Route } from '@postern/contracts'
import type { z } from 'zod'
import type { AnswerBody, ContractInput } from './contract-route.ts'
import type { App } from './register-route.ts'
import { contractList } from './list-route.ts'
import { type ListSource, streamList } from './stream-list.ts'
import { type PageInput, openPage } from './page.ts'
import { problem } from './problem.ts'

type ItemOf<R extends Route> = AnswerBody<R> extends readonly (infer Item extends object)[] ? Item : never

export interface PageStart<Key> {
  readonly after: Key | undefined
  readonly limit: number
}

type PagedRoute = Route & { readonly query: z.ZodType<PageInput['query']> }

export interface StoredList<R extends Route, Tx, Asked, Row, Key> {
  readonly source: ListSource<Tx>
  readonly exportBatch?: number
  key(input: ContractInput<R>): z.ZodType<Key>
  asked(input: ContractInput<R>): Asked | Promise<Asked>
  /** Whether the parent of the list exists; otherwise 404. */
  isThere?(tx: Tx, asked: Asked): Promise<boolean>
  /** For lists with `updated_since`: where the change feed ends. */
  mark?(tx: Tx): Promise<string>
  list(tx: Tx, asked: Asked, place: PageStart<Key>): Promise<readonly Row[]>
  count(tx: Tx, asked: Asked): Promise<number>
  keyOf(row: Row, asked: Asked): Key
  show(row: Row, asked: Asked): ItemOf<R>
}

export function storedList<const R extends PagedRoute, Tx, Asked, Row, Key>(
  app: App,
  route: R,
  parts: StoredList<R, Tx, Asked, Row, Key>,
): void {
  const { source, exportBatch = 500, isThere } = parts
  contractList<R, ItemOf<R>>(app, route, {
    page: async (input: ContractInput<R> & PageInput) => {
      const page = openPage(input, route, parts.key(input))
      const asked = await parts.asked(input)
      const [there, rows, total, mark] = await source.read(
        input.context,
        async (tx) =>
          await Promise.all([
            isThere?.(tx, asked),
            parts.list(tx, asked, { after: page.after, limit: page.limit + 1 }),
            page.wantsTotal ? parts.count(tx, asked) : undefined,
            page.wantsMark ? parts.mark?.(tx) : undefined,
          ]),
      )
      if (there === false) throw problem('not_found')
      if (total !== undefined) page.total(total)
      if (mark !== undefined) page.nextUpdatedSince(mark)
      const shown = page.finish(rows, (row) => parts.keyOf(row, asked)).map((row) => parts.show(row, asked))
      return shown as readonly object[] as AnswerBody<R>
    },
    all: async function* (input: ContractInput<R> & PageInput) {
      const page = openPage(input, route, parts.key(input))
      const asked = await parts.asked(input)
      if (isThere !== undefined && !(await source.read(input.context, async (tx) => await isThere(tx, asked)))) {
        throw problem('not_found')
      }
      const mark = page.wantsMark ? await source.read(input.context, async (tx) => await parts.mark?.(tx)) : undefined
      if (mark !== undefined) page.nextUpdatedSince(mark)
      const rows = streamList(source, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx: Tx, after: Key | undefined, limit) => await parts.list(tx, asked, { after, limit }),
        keyOf: (row: Row) => parts.keyOf(row, asked),
      })
      for await (const row of rows) yield parts.show(row, asked)
    },
  })
}
