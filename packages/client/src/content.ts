import type { EvidenceDetailsInput } from '@postern/contracts'

/** Prefer a Blob for a file (`openAsBlob` of node:fs, a File of a browser): it stays on disk. */
export type Content = Uint8Array<ArrayBuffer> | Blob

/** What the sender states about its files: dates, classification, source. */
export type EvidenceDetails = Omit<EvidenceDetailsInput, 'sha256' | 'test_procedures'>

export interface EvidenceFile {
  readonly content: Content
  readonly fileName: string
  /** Defaults to the type of the Blob, or `application/octet-stream`. */
  readonly contentType?: string
}

export function mediaTypeOf(content: Content | ReadableStream<Uint8Array>): string {
  return content instanceof Blob && content.type !== '' ? content.type : 'application/octet-stream'
}

/** Returns the SHA-256 in base64. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return btoa(String.fromCodePoint(...digest))
}
