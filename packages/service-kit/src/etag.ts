import type { RequestInfo } from './request-info.ts'
import { type ProblemError, problem } from './problem.ts'

/** Weak comparison (RFC 9110, section 13.1.2). `*` matches all. */
export function matchesEtag(list: string, etag: string): boolean {
  const wanted = withoutWeakness(etag)
  return list.split(',').some((part) => part.trim() === '*' || withoutWeakness(part.trim()) === wanted)
}

function withoutWeakness(etag: string): string {
  return withoutCoding(etag.startsWith('W/') ? etag.slice(2) : etag)
}

/**
 * Removes codings that proxies added: `"1-gzip"` (Apache, Caddy), `"1-gunzip"`, `"1--gzip"` (Jetty), `"1;gz"`,
 * `"1:br"`.
 */
export function withoutCoding(etag: string): string {
  if (!etag.endsWith('"')) return etag
  let end = etag.length - 1
  for (;;) {
    // A pattern over the whole tag would take quadratic time.
    const found = coding.exec(etag.slice(Math.max(0, end - longestCoding), end))
    if (found === null) return `${etag.slice(0, end)}"`
    end -= found[0].length
  }
}

const coding = /(?:--?|[;:])(?:gzip|gunzip|x-gzip|gz|br|zstd|deflate)$/
const longestCoding = '--deflate'.length

/** Each tag with and without the coding that a proxy added. */
export function tagsIn(ifMatch: string): string[] {
  return ifMatch.split(',').flatMap((text) => {
    const tag = text.trim()
    const plain = withoutCoding(tag)
    return plain === tag ? [tag] : [tag, plain]
  })
}

/**
 * Throws 428 without `If-Match`, and 412 if the resource has changed. Compares strongly (RFC 9110, section 13.1.1).
 * `partOf` extracts the part that only clients' changes alter.
 */
export function assertIfMatch(
  { raw }: { readonly raw: Pick<RequestInfo['raw'], 'headers'> },
  etag: string,
  partOf: (tag: string) => string | undefined = (tag) => tag,
): void {
  const given = raw.headers['if-match']
  if (given === undefined) {
    throw problem('precondition_required', { detail: 'Send If-Match with the ETag of the resource as you read it.' })
  }
  if (!matchesStrongly(given, etag, partOf)) throw versionProblem(given)
}

export function versionProblem(ifMatch: string): ProblemError {
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  if (!tags.some((tag) => /^(?:W\/)?"[^"]*"$/.test(tag))) {
    const detail = '`If-Match` is not an entity tag. Send the `ETag` that you read, with its quotes.'
    return problem('precondition_failed', { detail })
  }
  if (tags.every((tag) => tag.startsWith('W/'))) {
    const detail = '`If-Match` is a weak entity tag; a proxy may have added the `W/`. Send it without `W/`.'
    return problem('precondition_failed', { detail })
  }
  return problem('precondition_failed', {
    detail: 'The resource has changed. Read the resource again and resend your change with the new ETag.',
  })
}

function matchesStrongly(list: string, etag: string, partOf: (tag: string) => string | undefined): boolean {
  const tags = tagsIn(list)
  if (tags.includes('*')) return true
  const wanted = etag.startsWith('W/') ? undefined : partOf(etag)
  return wanted !== undefined && tags.some((tag) => partOf(tag) === wanted)
}
