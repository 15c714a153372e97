import type { CurrentRowsAnswer } from '@postern/contracts/internal'

/** How rows stand of which keys: those from the place `from` up to the place `to`. */
export interface CurrentPart {
  readonly from: number
  readonly to: number
  readonly rows: CurrentRowsAnswer['rows']
}

/**
 * Asks for as long as there are keys of which nothing is known: rows may be so long that the universe tells of some only. For not many more
 * of them it is asked next: those that do not fit it has read in vain.
 */
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
