import { hash } from 'node:crypto'
import { httpJsonConfigSchema } from '@postern/contracts'
import type { z } from 'zod'
import { SourceReadError } from '../source-read-error.ts'
import { type SourceContext, type SourceItem, type SourceType, defineSourceType } from '../types.ts'
import { caSchema } from './fields.ts'
import { findMemberFaults, followPointer, parseJson, toJsonItem } from './json-items.ts'
import { createPageReader, httpSecretNames } from './page-reader.ts'
import { endlessPagingError, firstPage, nextPage } from './paging.ts'

const configSchema = httpJsonConfigSchema.safeExtend({ ca: caSchema.optional() })
type HttpJsonConfig = z.output<typeof configSchema>

export const httpJson: SourceType = defineSourceType({
  type: 'http_json',
  configSchema,
  secretNames: httpSecretNames,
  read: readHttpJson,
})

async function* readHttpJson(context: SourceContext<HttpJsonConfig>): AsyncGenerator<SourceItem> {
  const { config, limits, outbound, signal } = context
  const http = outbound.http({ ca: config.ca, maxBytes: limits.maxBytes, maxSilenceMs: limits.maxSilenceMs })
  try {
    const ask = createPageReader({ auth: config.auth, accept: 'application/json' }, context, http)
    let url: URL | undefined = firstPage(config.url, config.paging)
    const readPages = new Set<string>()
    let row = 0
    let before = ''
    for (let number = 1; url !== undefined; number++) {
      if (number > limits.maxPages) throw endlessPagingError(`the source has more than ${limits.maxPages} pages`)
      const page = hash('sha256', url.href, 'base64')
      if (readPages.has(page)) {
        throw endlessPagingError(
          `page ${number - 1} links to a page that was already read: check the paging of the connector`,
        )
      }
      readPages.add(page)
      const { text, link } = await ask(url, number)
      const document = parseJson(text, number)
      const items = followPointer(document, config.items)
      if (!Array.isArray(items)) {
        const message = `page ${number} has no list at \`${config.items}\`: set \`items\` to where the list is`
        throw new SourceReadError('items_missing', message)
      }
      const faults = findMemberFaults(text, number, config.items)
      const read = items.map((item, index) => toJsonItem(item, row + 1 + index, limits, faults.get(index)))
      const digest = hash('sha256', contentOf(read, text), 'base64')
      if (items.length > 0 && digest === before) {
        throw endlessPagingError(
          `page ${number} has the same items as the one before it: check the paging of the connector`,
        )
      }
      before = digest
      row += read.length
      yield* read
      signal.throwIfAborted()
      url = nextPage({ url, number, document, link, isEmpty: items.length === 0 }, config.paging)
    }
  } finally {
    await http.close()
  }
}

/** Only items identify a page, because the rest may contain the time. If one cannot be read, the whole text does. */
function contentOf(items: readonly SourceItem[], text: string): string {
  const rows = items.flatMap((item) => (item.kind === 'row' ? [item.values] : []))
  return rows.length === items.length ? JSON.stringify(rows) : text
}
