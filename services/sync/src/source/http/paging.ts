import LinkHeader from 'http-link-header'
import { z } from 'zod'
import { SourceFailure } from '../failure.ts'
import { followPointer, pointerPattern } from './json-items.ts'

const parameter = z.string().regex(/^[A-Za-z0-9_.$[\]-]{1,64}$/)
const pointer = z.string().max(255).regex(pointerPattern, { message: 'must be a JSON Pointer' })

/** How a source is asked for what comes after. */
export const pagingSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  /** A number that grows by `step`, until a page is empty: 1 for pages, the size of a page for offsets. */
  z.strictObject({
    kind: z.literal('page'),
    parameter: parameter.default('page'),
    first: z.int().min(0).max(1).default(1),
    step: z.int().min(1).max(100_000).default(1),
  }),
  /** A text of the answer that is sent with the next question, or is its URL, which may be relative to that of the page; the last answer has none. */
  z.strictObject({ kind: z.literal('cursor'), parameter: parameter.default('cursor'), next: pointer }),
  /** The answer's `Link` with `rel="next"`, RFC 8288. */
  z.strictObject({ kind: z.literal('link') }),
])
type Paging = z.output<typeof pagingSchema>

/** An answer of which the next page is to be found. */
interface Page {
  readonly url: URL
  readonly number: number
  readonly document: unknown
  readonly link: string | undefined
  readonly isEmpty: boolean
}

/** Where the first page is. */
export function firstPage(url: string, paging: Paging): URL {
  const first = new URL(url)
  if (paging.kind === 'page') first.searchParams.set(paging.parameter, String(paging.first))
  return first
}

/** Where the page after one is, if there is any. Throws a SourceFailure for one that is at another origin. */
export function nextPage(page: Page, paging: Paging): URL | undefined {
  switch (paging.kind) {
    case 'none':
      return undefined
    case 'page':
      if (page.isEmpty) return undefined
      return withParameter(page.url, paging.parameter, String(paging.first + page.number * paging.step))
    case 'cursor': {
      const next = followPointer(page.document, paging.next)
      if (next === undefined || next === null || next === '' || next === false) return undefined
      if (typeof next !== 'string' && typeof next !== 'number') {
        throw new SourceFailure(
          'cursor_invalid',
          'the cursor of the source is neither a text nor a number: check `next`',
        )
      }
      const text = String(next)
      return isReference(text, page.url) ? sameOrigin(text, page.url) : withParameter(page.url, paging.parameter, text)
    }
    case 'link': {
      if (page.link === undefined) return undefined
      const next = nextLink(page.link)
      return next === undefined ? undefined : sameOrigin(next, page.url)
    }
    default:
      return paging satisfies never
  }
}

/** Whether a text is a URL, or a reference that is relative to that of its page (RFC 3986 section 4.2), and no token: one may begin with a slash, too. */
function isReference(text: string, page: URL): boolean {
  if (/^(?:https?:)?\/\//i.test(text) || /^\.{0,2}\/?[\w.~$/-]*\?[\w.~$%-]+=/.test(text)) return true
  const [, first] = page.pathname.split('/')
  return /^\.{1,2}\//.test(text) || (first !== '' && text.startsWith(`/${first}/`))
}

function nextLink(header: string): string | undefined {
  try {
    return LinkHeader.parse(header).rel('next')[0]?.uri
  } catch (cause) {
    throw new SourceFailure('link_invalid', 'the `Link` header of the source cannot be read', { cause })
  }
}

function withParameter(url: URL, name: string, value: string): URL {
  const next = new URL(url)
  next.searchParams.set(name, value)
  return next
}

/** The credentials go where the connector says, and nowhere that an answer says. */
function sameOrigin(text: string, from: URL): URL {
  const next = URL.canParse(text, from.href) ? new URL(text, from.href) : undefined
  if (next?.origin === from.origin) return next
  throw new SourceFailure(
    'page_elsewhere',
    `${from.host} says that its next page is at another origin: it is not asked`,
  )
}
