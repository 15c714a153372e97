import LinkHeader from 'http-link-header'
import type { pagingSchema } from '@postern/contracts'
import type { z } from 'zod'
import { SourceReadError } from '../source-read-error.ts'
import { followPointer } from './json-items.ts'

type Paging = z.output<typeof pagingSchema>

interface Page {
  readonly url: URL
  readonly number: number
  readonly document: unknown
  readonly link: string | undefined
  readonly isEmpty: boolean
}

export function firstPage(url: string, paging: Paging): URL {
  const first = new URL(url)
  if (paging.kind === 'page') first.searchParams.set(paging.parameter, String(paging.first))
  return first
}

/** Throws a SourceReadError for another origin. */
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
        throw new SourceReadError(
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

/** Returns whether a cursor is a URL (RFC 3986, section 4.2). A token may also start with a slash. */
function isReference(text: string, page: URL): boolean {
  if (/^(?:https?:)?\/\//i.test(text) || /^\.{0,2}\/?[\w.~$/-]*\?[\w.~$%-]+=/.test(text)) return true
  const [, first] = page.pathname.split('/')
  return /^\.{1,2}\//.test(text) || (first !== '' && text.startsWith(`/${first}/`))
}

function nextLink(header: string): string | undefined {
  try {
    return LinkHeader.parse(header).rel('next')[0]?.uri
  } catch (cause) {
    throw new SourceReadError('link_invalid', 'the `Link` header of the source cannot be read', { cause })
  }
}

export function endlessPagingError(message: string): SourceReadError {
  return new SourceReadError('paging_endless', message)
}

function withParameter(url: URL, name: string, value: string): URL {
  const next = new URL(url)
  next.searchParams.set(name, value)
  return next
}

/** Credentials go only to the connector's own origin. */
function sameOrigin(text: string, from: URL): URL {
  const next = URL.canParse(text, from.href) ? new URL(text, from.href) : undefined
  if (next?.origin === from.origin) return next
  throw new SourceReadError(
    'page_elsewhere',
    `${from.host} links to a next page at another origin, which is not allowed`,
  )
}
