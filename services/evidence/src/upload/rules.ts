import { type ContentDigest, parseContentDigest } from './content-digest.ts'
import { type FileKind, judgeDeclared } from './file-kind.ts'

/** What the head of an upload says about its body. */
export interface DeclaredUpload {
  readonly contentType: string
  /** Bytes announced by Content-Length; undefined for a chunked body. */
  readonly contentLength: number | undefined
  /** Lower-case hex that the body must hash to, where the sender gave it. */
  readonly sha256: string | undefined
}

export type UploadRefusal =
  | { readonly why: 'empty' }
  | { readonly why: 'too_large' }
  | { readonly why: 'kind'; readonly reason: string }
  | { readonly why: 'encoded' }
  | { readonly why: 'content_type' }
  | { readonly why: 'content_digest'; readonly reason: string }
  | { readonly why: 'length_mismatch' }
  | { readonly why: 'digest_mismatch' }
  | { readonly why: 'too_long' }

export interface UploadHead {
  readonly fileName: string
  readonly contentType: string | undefined
  readonly contentLength: string | undefined
  readonly contentEncoding: string | undefined
  readonly contentDigest: string | undefined
}

// A media type with parameters (RFC 9110 §8.3.1), of a length that is kept with the file.
const mediaType = /^[\w!#$&^.+-]{1,80}\/[\w!#$&^.+-]{1,80}(?:\s*;[\x20-\x7e]{0,160})?$/
const maxContentTypeLength = 255

/** Judges an upload by its head alone: what is refused here costs no byte of the body. */
export function judgeHead(
  head: UploadHead,
  maxBytes: number,
):
  | { readonly accepted: true; readonly declared: DeclaredUpload }
  | { readonly accepted: false; readonly refusal: UploadRefusal } {
  const refuse = (refusal: UploadRefusal) => ({ accepted: false, refusal }) as const
  const contentLength = head.contentLength === undefined ? undefined : Number(head.contentLength)
  if (contentLength !== undefined && contentLength > maxBytes) return refuse({ why: 'too_large' })
  // What is hashed, judged and kept must be the file itself, not a packed form of it.
  const encoding = head.contentEncoding?.trim().toLowerCase()
  if (encoding !== undefined && encoding !== '' && encoding !== 'identity') return refuse({ why: 'encoded' })
  const contentType = head.contentType ?? 'application/octet-stream'
  if (contentType.length > maxContentTypeLength || !mediaType.test(contentType)) return refuse({ why: 'content_type' })
  const kind: FileKind = judgeDeclared(head.fileName, contentType)
  if (!kind.accepted) return refuse({ why: 'kind', reason: kind.reason })
  const digest: ContentDigest = parseContentDigest(head.contentDigest)
  if (digest.kind === 'malformed') return refuse({ why: 'content_digest', reason: digest.reason })
  if (contentLength === 0) return refuse({ why: 'empty' })
  return {
    accepted: true,
    declared: { contentType, contentLength, sha256: digest.kind === 'sha-256' ? digest.hex : undefined },
  }
}

/** Judges the whole body by its size and hash: undefined when it is what the head said. */
export function judgeBody(
  declared: DeclaredUpload,
  body: { readonly sizeBytes: number; readonly sha256: string },
): UploadRefusal | undefined {
  if (body.sizeBytes === 0) return { why: 'empty' }
  if (declared.contentLength !== undefined && declared.contentLength !== body.sizeBytes) {
    return { why: 'length_mismatch' }
  }
  // Both are known to the sender: there is nothing here that the time of a comparison could tell.
  if (declared.sha256 !== undefined && declared.sha256 !== body.sha256) return { why: 'digest_mismatch' }
  return undefined
}

/** `EV-<year>-<number>`, the number with at least six digits. */
export function formatReference(year: number, number: string): string {
  return `EV-${year}-${number.padStart(6, '0')}`
}
