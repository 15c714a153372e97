import type { CurrentRowsAnswer } from '@postern/contracts/internal'

export interface CurrentPart {
  readonly from: number
  readonly to: number
  readonly rows: CurrentRowsAnswer['rows']
}

/** The universe may cover only some keys, because rows can be long; the next request then has at most twice as many. */
export async function* currentParts(
  keys: readonly string[],
  ask: (keys: string[]) => Promise<CurrentRowsAnswer>,
): AsyncGenerator<CurrentPart> {
  let room = keys.length
  for (let from = 0; from < keys.length;) {
    const some = keys.slice(from, from + room)
    const { rows, reached } = await ask(some)
    const to = from + reached
    room = 2 * (reached < some.length ? reached : room)
    yield { from, to, rows }
    from = to
  }
}
