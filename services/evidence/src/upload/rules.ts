import { type ContentDigest, type EvidenceDetails, maxFilesAtOnce, parseContentDigest } from '@postern/contracts'
import { type AllowedTypes, type FileKind, judgeDeclared } from './file-kind.ts'

export interface DeclaredUpload {
  readonly contentType: string
  readonly contentLength: number | undefined
  readonly sha256: string | undefined
}

export type DigestHeader = 'Content-Digest' | 'Repr-Digest'

export type UploadRefusal =
  | { readonly why: 'empty' }
  | { readonly why: 'placeholder'; readonly text: string }
  | { readonly why: 'too_large' }
  | { readonly why: 'kind'; readonly reason: string }
  | { readonly why: 'encoded' }
  | { readonly why: 'content_type' }
  | { readonly why: 'content_digest'; readonly header: DigestHeader; readonly reason: string }
  | { readonly why: 'length_mismatch' }
  | { readonly why: 'digest_mismatch' }
  | { readonly why: 'too_long' }
  | { readonly why: 'file_name' }
  | { readonly why: 'multipart'; readonly reason: string }

export interface UploadHead {
  readonly fileName: string | undefined
  readonly contentType: string | undefined
  readonly contentLength: string | undefined
  readonly contentEncoding: string | undefined
  readonly contentDigest: string | undefined
  /** Content codings are rejected (RFC 9530, section 3). */
  readonly reprDigest: string | undefined
}

// RFC 9110, section 8.3.1.
const mediaType = /^[\w!#$&^.+-]{1,80}\/[\w!#$&^.+-]{1,80}(?:\s*;[\x20-\x7e]{0,160})?$/
const maxContentTypeLength = 255

type UploadVerdict<T> =
  | ({ readonly accepted: true } & T)
  | { readonly accepted: false; readonly refusal: UploadRefusal }

function refuse(refusal: UploadRefusal): { readonly accepted: false; readonly refusal: UploadRefusal } {
  return { accepted: false, refusal }
}

/** For boundaries, heads and metadata. */
const besideFilesBytes = 1024 * 1024

export function judgeMultipartHead(
  head: UploadHead,
  maxBytes: number,
): UploadVerdict<{ readonly contentLength?: number }> {
  for (const [header, value] of digestsOf(head)) {
    if (value === undefined) continue
    const reason = 'is not checked for multipart/form-data: send `sha256` in `metadata`'
    return refuse({ why: 'content_digest', header, reason })
  }
  return judgeBodyHead(head, maxFilesAtOnce * maxBytes + besideFilesBytes)
}

function digestsOf(head: UploadHead): readonly (readonly [DigestHeader, string | undefined])[] {
  return [
    ['Content-Digest', head.contentDigest],
    ['Repr-Digest', head.reprDigest],
  ]
}

function judgeBodyHead(head: UploadHead, maxBytes: number): UploadVerdict<{ readonly contentLength?: number }> {
  const contentLength = head.contentLength === undefined ? undefined : Number(head.contentLength)
  if (contentLength !== undefined && contentLength > maxBytes) return refuse({ why: 'too_large' })
  // The stored bytes must be the file, not a compressed form.
  const encoding = head.contentEncoding?.trim().toLowerCase()
  if (encoding !== undefined && encoding !== '' && encoding !== 'identity') return refuse({ why: 'encoded' })
  return { accepted: true, ...(contentLength === undefined ? {} : { contentLength }) }
}

export function judgeFile(fileName: string, contentType: string, allowed?: AllowedTypes): UploadVerdict<unknown> {
  if (contentType.length > maxContentTypeLength || !mediaType.test(contentType)) return refuse({ why: 'content_type' })
  const kind: FileKind = judgeDeclared(fileName, contentType, allowed)
  return kind.accepted ? { accepted: true } : refuse({ why: 'kind', reason: kind.reason })
}

export function judgeHead(
  head: UploadHead,
  maxBytes: number,
  allowed?: AllowedTypes,
): UploadVerdict<{ readonly declared: DeclaredUpload; readonly fileName: string }> {
  const body = judgeBodyHead(head, maxBytes)
  if (!body.accepted) return body
  const { fileName, contentType = 'application/octet-stream' } = head
  if (fileName === undefined) return refuse({ why: 'file_name' })
  const file = judgeFile(fileName, contentType, allowed)
  if (!file.accepted) return file
  const { contentLength } = body
  let sha256: string | undefined
  for (const [header, value] of digestsOf(head)) {
    const digest: ContentDigest = parseContentDigest(value, ['sha-256'])
    if (digest.kind === 'malformed') return refuse({ why: 'content_digest', header, reason: digest.reason })
    if (digest.kind === 'none') continue
    const hex = digest.digests.get('sha-256')
    if (sha256 !== undefined && sha256 !== hex) return refuse({ why: 'digest_mismatch' })
    sha256 = hex
  }
  if (contentLength === 0) return refuse({ why: 'empty' })
  return {
    accepted: true,
    fileName,
    declared: { contentType, contentLength, sha256 },
  }
}

/** Undefined if size and hash match. */
export function judgeBody(
  declared: DeclaredUpload,
  body: { readonly sizeBytes: number; readonly sha256: string },
): UploadRefusal | undefined {
  if (body.sizeBytes === 0) return { why: 'empty' }
  if (declared.contentLength !== undefined && declared.contentLength !== body.sizeBytes) {
    return { why: 'length_mismatch' }
  }
  if (declared.sha256 !== undefined && declared.sha256 !== body.sha256) return { why: 'digest_mismatch' }
  return undefined
}

const aheadMs = 5 * 60 * 1000
const dayMs = 24 * 60 * 60 * 1000

/** The first time in the future. A day may be ahead of UTC, and a period may end in the future. */
export function findUntimely(
  { collected_at: collectedAt, evidence_date: day }: Pick<EvidenceDetails, 'collected_at' | 'evidence_date'>,
  now: number,
): { readonly member: 'collected_at' | 'evidence_date'; readonly detail: string } | undefined {
  if (collectedAt !== undefined && Date.parse(collectedAt) > now + aheadMs) {
    return { member: 'collected_at', detail: 'must not be later than now' }
  }
  if (day !== undefined && day > new Date(now + dayMs).toISOString().slice(0, 10)) {
    return { member: 'evidence_date', detail: 'must not be later than tomorrow (UTC)' }
  }
  return undefined
}

export function formatReference(year: number, number: string): string {
  return `EV-${year}-${number.padStart(6, '0')}`
}
