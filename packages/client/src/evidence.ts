import type { Receipt } from '@postern/contracts'
import { type CallOptions, type Connection, fillPath, idempotencyHeader, queryOf, readJson } from './connection.ts'
import { type Content, type EvidenceDetails, type EvidenceFile, sha256, mediaTypeOf } from './content.ts'
import { formOf } from './form.ts'
import { type AnswerOf, type BodyOf, type QueryOf, operations } from './operations.ts'
import { type SignedReceipt, verifyReceipt } from './receipts.ts'
import { type Target, addressOf } from './resource.ts'
import { type ResumableOptions, uploadResumably } from './resumable.ts'

export interface EvidenceUpload extends CallOptions {
  /** A stream is sent in constant memory and never retried. */
  readonly content: Content | ReadableStream<Uint8Array>
  readonly fileName: string
  readonly contentType?: string
  /** Ids, `ref:` or `ext:` addresses. */
  readonly testProcedures?: readonly string[]
  readonly about?: Omit<QueryOf<'uploadEvidence'>, 'file_name' | 'test_procedure'>
}

export interface EvidenceForm extends CallOptions {
  readonly testProcedures?: readonly string[]
  readonly about?: EvidenceDetails
}

/** Needs `write:evidence`. Keep the receipts: a key cannot read uploaded files. */
export interface Evidence {
  /** Uploads one file, with its SHA-256 if it is in memory. A stream is not retried. */
  upload(upload: EvidenceUpload): Promise<Receipt>
  /** Uploads up to ten files, all or none. Returns the receipts in order. */
  uploadAll(files: readonly EvidenceFile[], form?: EvidenceForm): Promise<Receipt[]>
  /** Uploads one large file in pieces (tus 1.0) and resumes after failures, even in another process. */
  uploadResumably(file: EvidenceFile, options?: ResumableOptions): Promise<Receipt>
  /** Uploads a new version of a file that the same key uploaded within the last 30 days. */
  revise(target: Target, upload: EvidenceUpload): Promise<Receipt>
  attach(
    target: Target,
    attachment: BodyOf<'attachEvidence'>,
    options?: CallOptions,
  ): Promise<AnswerOf<'attachEvidence'>>
  /** Rejects with a ReceiptError unless the API signed exactly this receipt. */
  verify(receipt: SignedReceipt, options?: CallOptions): Promise<void>
  /** The public keys that verify receipts (RFC 7517). */
  receiptKeys(options?: CallOptions): Promise<AnswerOf<'receiptKeys'>>
}

export function openEvidence(connection: Connection): Evidence {
  return {
    upload: async (upload) => await sendFile(connection, operations.uploadEvidence[1], upload),
    uploadAll: async (files, form = {}) => await sendForm(connection, files, form),
    uploadResumably: async (file, options = {}) => await uploadResumably(connection, file, options),
    revise: async (target, upload) =>
      await sendFile(connection, fillPath(operations.reviseEvidence[1], { id: addressOf(target) }), upload),
    attach: async (target, body, options = {}) =>
      await connection.call('attachEvidence', { params: { id: addressOf(target) }, body, ...options }),
    verify: async (receipt, options = {}) =>
      await verifyReceipt(receipt, (await connection.call('receiptKeys', options)).keys),
    receiptKeys: async (options = {}) => await connection.call('receiptKeys', options),
  }
}

async function sendFile(connection: Connection, path: string, upload: EvidenceUpload): Promise<Receipt> {
  const { content, fileName, contentType, testProcedures, about = {}, signal } = upload
  const procedures = testProcedures?.length === 0 ? undefined : testProcedures
  const answer = await connection.receive({
    method: 'POST',
    target: `${path}${queryOf({ ...about, file_name: fileName, test_procedure: procedures })}`,
    headers: {
      'content-type': contentType ?? mediaTypeOf(content),
      ...idempotencyHeader('POST'),
      ...(await digestOf(content)),
    },
    body: content,
    signal,
    isLong: true,
  })
  return readJson(answer)
}

async function sendForm(
  connection: Connection,
  files: readonly EvidenceFile[],
  { testProcedures, about = {}, signal }: EvidenceForm,
): Promise<Receipt[]> {
  // A retry with the same Idempotency-Key must send the same bytes.
  const { body, contentType } = formOf(
    { ...about, ...(testProcedures === undefined ? {} : { test_procedures: testProcedures }) },
    files.map((file) => ({ ...file, contentType: file.contentType ?? mediaTypeOf(file.content) })),
  )
  const answer = await connection.receive({
    method: 'POST',
    target: operations.uploadEvidenceForm[1],
    headers: { 'content-type': contentType, ...idempotencyHeader('POST') },
    body,
    signal,
    isLong: true,
  })
  return readJson(answer)
}

/** Content in memory is sent with its digest (RFC 9530). */
async function digestOf(content: EvidenceUpload['content']): Promise<{ 'content-digest'?: string }> {
  if (!(content instanceof Uint8Array)) return {}
  return { 'content-digest': `sha-256=:${await sha256(content)}:` }
}
