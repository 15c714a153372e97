import type { IncomingHttpHeaders } from 'node:http'
import { maxFilesAtOnce, parseContentDigest } from '@postern/contracts'
import { problem, unreadableDigestProblem } from '@postern/service-kit'
import { type AllowedTypes, judgeDeclared } from './file-kind.ts'
import { digestMismatchProblem, emptyFileProblem, fileTooLargeProblem, kindProblem } from './refusal.ts'

export interface DeclaredUpload {
  readonly contentType: string
  readonly contentLength: number | undefined
  readonly sha256: string | undefined
}

// RFC 9110, section 8.3.1.
const mediaType = /^[\w!#$&^.+-]{1,80}\/[\w!#$&^.+-]{1,80}(?:\s*;[\x20-\x7e]{0,160})?$/
const maxContentTypeLength = 255

/** Throws a problem if files with this name or media type are not accepted. */
export function assertFileKind(fileName: string, contentType: string, allowed?: AllowedTypes): void {
  if (contentType.length > maxContentTypeLength || !mediaType.test(contentType)) {
    throw problem('unsupported_media_type', { detail: 'The Content-Type must be a media type, such as text/csv.' })
  }
  const kind = judgeDeclared(fileName, contentType, allowed)
  if (!kind.accepted) throw kindProblem(kind.reason)
}

/** Content codings are rejected, so both digests are of the file (RFC 9530, section 3). */
const digestHeaders = ['Content-Digest', 'Repr-Digest'] as const

/** For boundaries, heads and metadata. */
const besideFilesBytes = 1024 * 1024

/** Returns the length of a form, if it is announced. Throws a problem. */
export function parseFormHead(headers: IncomingHttpHeaders, maxBytes: number): number | undefined {
  for (const header of digestHeaders) {
    if (digestIn(headers, header) === undefined) continue
    throw unreadableDigestProblem(header, 'is not checked for multipart/form-data: send `sha256` in `metadata`')
  }
  return parseBodyHead(headers, maxFilesAtOnce * maxBytes + besideFilesBytes)
}

/** Throws a problem. */
export function parseFileHead(
  headers: IncomingHttpHeaders,
  fileName: string | undefined,
  { maxBytes, allowedTypes }: { readonly maxBytes: number; readonly allowedTypes?: AllowedTypes },
): { readonly declared: DeclaredUpload; readonly fileName: string } {
  const contentLength = parseBodyHead(headers, maxBytes)
  const { 'content-type': contentType = 'application/octet-stream' } = headers
  if (fileName === undefined) {
    throw problem('bad_request', {
      errors: [{ parameter: 'file_name', code: 'required', detail: 'is required: the name of the file in the body' }],
    })
  }
  assertFileKind(fileName, contentType, allowedTypes)
  let sha256: string | undefined
  for (const header of digestHeaders) {
    const digest = parseContentDigest(digestIn(headers, header), ['sha-256'])
    if (digest.kind === 'malformed') throw unreadableDigestProblem(header, digest.reason)
    if (digest.kind === 'none') continue
    const hex = digest.digests.get('sha-256')
    if (sha256 !== undefined && sha256 !== hex) throw digestMismatchProblem()
    sha256 = hex
  }
  if (contentLength === 0) throw emptyFileProblem()
  return { fileName, declared: { contentType, contentLength, sha256 } }
}

function parseBodyHead(headers: IncomingHttpHeaders, maxBytes: number): number | undefined {
  const contentLength = headers['content-length'] === undefined ? undefined : Number(headers['content-length'])
  if (contentLength !== undefined && contentLength > maxBytes) throw fileTooLargeProblem()
  // The stored bytes must be the file, not a compressed form.
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') {
    throw problem('unsupported_media_type', { detail: 'Send the file itself, without a Content-Encoding.' })
  }
  return contentLength
}

function digestIn(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()]
  return Array.isArray(value) ? value.join(', ') : value
}

/** Throws a problem unless size and hash match. */
export function assertDeclared(
  declared: DeclaredUpload,
  body: { readonly sizeBytes: number; readonly sha256: string },
): void {
  if (body.sizeBytes === 0) throw emptyFileProblem()
  if (declared.contentLength !== undefined && declared.contentLength !== body.sizeBytes) {
    throw problem('bad_request', {
      detail: 'The body does not have the length in Content-Length. Send the file again.',
      errors: [{ parameter: 'Content-Length', code: 'invalid', detail: 'must be the length of the body' }],
    })
  }
  if (declared.sha256 !== undefined && declared.sha256 !== body.sha256) throw digestMismatchProblem()
}
