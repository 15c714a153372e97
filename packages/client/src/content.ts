import type { evidenceDetailsSchema } from '@postern/contracts'

/** Bytes that are at hand. A file is best given as a Blob (`openAsBlob` of node:fs, a File of a browser): it stays on disk. */
export type Content = Uint8Array<ArrayBuffer> | Blob

/** What a sender says of its files: dates, classification, where they are from. */
export type EvidenceDetails = Omit<(typeof evidenceDetailsSchema)['_zod']['input'], 'sha256' | 'test_procedures'>

export interface EvidenceFile {
  readonly content: Content
  readonly fileName: string
  /** Media type; default that of the Blob, or `application/octet-stream`. */
  readonly contentType?: string
}

/** The media type of a file about which nothing was said. */
export function typeOf(content: Content | ReadableStream<Uint8Array>): string {
  return content instanceof Blob && content.type !== '' ? content.type : 'application/octet-stream'
}

/** The SHA-256 in base64. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return btoa(String.fromCodePoint(...digest))
}
