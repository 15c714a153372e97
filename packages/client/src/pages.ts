import type { CallOptions, Connection, ReceivedAnswer } from './connection.ts'
import { fillPath, queryOf, readJson } from './connection.ts'
import { type ItemOf, type OperationName, type QueryOf, operations } from './operations.ts'

/** `for await (const finding of list)` yields resources and requests pages as needed; `list.pages()` yields pages. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #connection: Connection
  readonly #target: string
  readonly #signal: AbortSignal | undefined

  #nextUpdatedSince: string | undefined

  constructor(connection: Connection, target: string, signal?: AbortSignal) {
    this.#connection = connection
    this.#target = target
    this.#signal = signal
  }

  /** Send it as `updated_since` the next time. Undefined before the first page, and for lists without `updated_since`. */
  get nextUpdatedSince(): string | undefined {
    return this.#nextUpdatedSince
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page
  }

  async *pages(): AsyncGenerator<T[], void, undefined> {
    let target: string | undefined = this.#target
    while (target !== undefined) {
      const answer: ReceivedAnswer = await this.#connection.receive({ method: 'GET', target, signal: this.#signal })
      this.#nextUpdatedSince = answer.headers.get('postern-next-updated-since') ?? undefined
      const next = nextUrl(answer.headers.get('link'))
      yield readJson<T[]>(answer)
      target = next === undefined ? undefined : this.#connection.targetOf(next)
    }
  }

  async all(): Promise<T[]> {
    const all: T[] = []
    for await (const page of this.pages()) all.push(...page)
    return all
  }

  async count(): Promise<number> {
    const [path = '', search = ''] = this.#target.split('?', 2)
    const query = new URLSearchParams(search)
    query.set('limit', '1')
    query.set('count', 'true')
    const answer = await this.#connection.send({ method: 'GET', target: `${path}?${query}`, signal: this.#signal })
    await answer.body?.cancel()
    return Number(answer.headers.get('x-total-count') ?? Number.NaN)
  }
}

export function pagesOf<N extends OperationName>(
  connection: Connection,
  name: N,
  params: Readonly<Record<string, string>>,
  query: QueryOf<N> | undefined,
  { signal }: CallOptions,
): Pages<ItemOf<N>> {
  const [, path] = operations[name]
  return new Pages(connection, `${fillPath(path, params)}${queryOf(query ?? {})}`, signal)
}

/** Returns the target of `rel="next"` (RFC 8288 §3). */
export function nextUrl(link: string | null): string | undefined {
  for (const [, url, parameters = ''] of (link ?? '').matchAll(/<([^>]*)>((?:\s*;\s*[^,;"]+(?:"[^"]*")?)*)/g)) {
    if (/;\s*rel="?(?:[^"]*\s)?next(?:\s[^"]*)?"?(?:\s*;|$)/.test(parameters)) return url
  }
  return undefined
}
