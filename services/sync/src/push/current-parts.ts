import type { CurrentRowsAnswer } from '@postern/contracts/internal'

export interface CurrentPart {
  readonly from: number
  readonly to: number
  readonly rows: CurrentRowsAnswer['rows']
}

/** The universe answers for fewer keys if their rows are long. The next request then has at most twice as many. */
export async function* currentParts(
  keys: readonly string[],
  ask: (keys: string[]) => Promise<CurrentRowsAnswer>,
): AsyncGenerator<CurrentPart> {
  let count = keys.length
  for (let from = 0; from < keys.length;) {
    const some = keys.slice(from, from + count)
    const { rows, reached } = await ask(some)
    const to = from + reached
    count = 2 * (reached < some.length ? reached : count)
    yield { from, to, rows }
    from = to
  }
}
