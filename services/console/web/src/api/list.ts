import { type RequestOptions, request } from './request.ts'

export interface PartialList<T> {
  readonly items: readonly T[]
  readonly hasMore: boolean
}

export async function readFirstPage<T>(path: string, options: RequestOptions): Promise<PartialList<T>> {
  const { body, headers } = await request<readonly T[]>(path, options)
  return { items: body, hasMore: nextPage(headers.get('link')) !== undefined }
}

/** Reads all pages. Before each further page, `onPage` receives the items so far. */
export async function readAllPages<T>(
  path: string,
  signal: AbortSignal,
  onPage?: (items: readonly T[]) => void,
): Promise<T[]> {
  const items: T[] = []
  for (let next: string | undefined = path; next !== undefined;) {
    const { body, headers }: { body: readonly T[]; headers: Headers } = await request<readonly T[]>(next, { signal })
    items.push(...body)
    next = nextPage(headers.get('link'))
    if (next !== undefined) onPage?.([...items])
  }
  return items
}

/** Returns the target of `rel="next"` (RFC 8288) as an API path. */
function nextPage(link: string | null): string | undefined {
  const target = /<([^>]*)>\s*;\s*rel="?next"?/.exec(link ?? '')?.[1]
  if (target === undefined) return undefined
  const { pathname, search } = new URL(target, location.origin)
  return `${pathname.slice(Math.max(0, pathname.lastIndexOf('/api/v1/')))}${search}`
}
