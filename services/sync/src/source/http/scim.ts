import { hash } from 'node:crypto'
import { scimConfigSchema } from '@postern/contracts'
import { z } from 'zod'
import { SourceReadError } from '../source-read-error.ts'
import { type SourceContext, type SourceItem, type SourceType, defineSourceType } from '../types.ts'
import { caSchema } from './fields.ts'
import { type MemberFault, findMemberFaults, parseJson, toJsonItem } from './json-items.ts'
import { createPageReader, httpSecretNames } from './page-reader.ts'
import { endlessPagingError } from './paging.ts'
import { scimName, withScimNames } from './scim-names.ts'

const configSchema = scimConfigSchema.safeExtend({ ca: caSchema.optional() })
type ScimConfig = z.output<typeof configSchema>

/** Some providers send null instead of an empty list. */
const listSchema = z.object({
  totalResults: z.int().min(0),
  Resources: z
    .array(z.unknown())
    .nullish()
    .transform((resources) => resources ?? []),
})

/** RFC 7644, section 3.4.2. */
export const scim: SourceType = defineSourceType({
  type: 'scim',
  configSchema,
  secretNames: httpSecretNames,
  nameOf: scimName,
  read: readScim,
})

async function* readScim(context: SourceContext<ScimConfig>): AsyncGenerator<SourceItem> {
  const { config, limits, outbound } = context
  const http = outbound.http({ ca: config.ca, maxBytes: limits.maxBytes, maxSilenceMs: limits.maxSilenceMs })
  try {
    const ask = createPageReader({ auth: config.auth, accept: 'application/scim+json' }, context, http)
    let received = 0
    let counted: number | undefined
    let first: string | undefined
    let before = ''
    for (let page = 1; ; page++) {
      if (page > limits.maxPages) throw endlessPagingError(`the source has more than ${limits.maxPages} pages`)
      const { text } = await ask(pageUrl(config, received + 1), page)
      const answer = parseJson(text, page)
      const list = listSchema.safeParse(withScimNames(answer, 1)).data
      if (list === undefined) {
        throw new SourceReadError('items_missing', 'the source did not return a SCIM list: check the address')
      }
      const { Resources: resources, totalResults: total } = list
      // If the total changes, items have moved, and one may have been skipped.
      if (total !== resources.length) {
        counted ??= total
        if (total !== counted) throw changedTotalError(counted, total)
      }
      const faults = findMemberFaults(text, page, `/${listName(answer)}`)
      const items = resources.map((item, at) =>
        toJsonItem(withScimNames(item, limits.maxDepth), received + 1 + at, limits, namedFaults(faults.get(at))),
      )
      // An invalid item may be nested too deep to serialize.
      const contents = items.map((item) => (item.kind === 'row' ? item.values : [item.code, item.values]))
      const digest = hash('sha256', JSON.stringify(contents), 'base64')
      // Providers count `totalResults` differently. After the end, some repeat the first or last page.
      if (resources.length === 0 || ((digest === before || digest === first) && received >= total)) {
        if (received < total) throw changedItemsError(received, total)
        return
      }
      if (digest === before)
        throw endlessPagingError('a page equals the one before it: the source does not support `startIndex`')
      before = digest
      first ??= digest
      received += items.length
      yield* items
      if (received === total && resources.length < config.page_size) return
    }
  } finally {
    await http.close()
  }
}

function listName(answer: unknown): string {
  const names = typeof answer === 'object' && answer !== null ? Object.keys(answer) : []
  return names.find((name) => scimName(name) === 'Resources') ?? 'Resources'
}

function namedFaults(faults: readonly MemberFault[] = []): readonly MemberFault[] {
  return faults.map((fault) => ({ ...fault, member: scimName(fault.member) }))
}

function pageUrl({ url, resource, filter, page_size: size }: ScimConfig, startIndex: number): URL {
  const page = new URL(url)
  page.pathname = `${page.pathname.replace(/\/$/, '')}/${resource}`
  page.searchParams.set('startIndex', String(startIndex))
  page.searchParams.set('count', String(size))
  if (filter !== undefined) page.searchParams.set('filter', filter)
  return page
}

function changedTotalError(before: number, total: number): SourceReadError {
  const message = `the source counted ${before} items and then ${total}: it changed while it was read`
  return new SourceReadError('list_incomplete', message, { retryable: true })
}

function changedItemsError(received: number, total: number): SourceReadError {
  const message = `the source returned ${received} of ${total} items: it changed during the read, or withholds some`
  return new SourceReadError('list_incomplete', message, { retryable: true })
}
