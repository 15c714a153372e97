import { type Connection, readJson } from './connection.ts'

/**
 * A list: `for await (const finding of list)` gives resource after resource and asks for the next page when it is
 * needed; `list.pages()` gives page after page. Each loop begins at the first page.
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #connection: Connection
  readonly #target: string

  constructor(connection: Connection, target: string) {
    this.#connection = connection
    this.#target = target
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page
  }

  async *pages(): AsyncGenerator<T[], void, undefined> {
    let target: string | undefined = this.#target
    while (target !== undefined) {
      const answer = await this.#connection.send({ method: 'GET', target })
      const next = nextUrl(answer.headers.get('link'))
      yield await readJson<T[]>(answer)
      target = next === undefined ? undefined : this.#connection.targetOf(next)
    }
  }
}

/** The target of `rel="next"` (RFC 8288 §3), wherever it stands among others. */
function nextUrl(link: string | null): string | undefined {
  for (const [, url, parameters = ''] of (link ?? '').matchAll(/<([^>]*)>((?:\s*;\s*[^,;"]+(?:"[^"]*")?)*)/g)) {
    if (/;\s*rel="?(?:[^"]*\s)?next(?:\s[^"]*)?"?(?:\s*;|$)/.test(parameters)) return url
  }
  return undefined
}
