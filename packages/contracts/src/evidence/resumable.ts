import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { defineRoute } from '../route.ts'
import { maxEvidenceBytes } from './details.ts'

export const tusVersion = '1.0.0'
export const tusExtensions = 'creation,termination,checksum,expiration'

export const offsetMediaType = 'application/offset+octet-stream'

/** A compact JWS, on responses to PATCH and HEAD of a complete upload. */
export const receiptHeader = 'postern-receipt'

const base = {
  upstream: 'evidence',
  tag: 'Resumable uploads',
  access: { kind: 'scope', scope: 'write:evidence' },
  acceptsMethodOverride: true,
  onEveryAnswer: { 'Tus-Resumable': { description: 'The version of the protocol', value: tusVersion } },
} as const

const version = {
  'Tus-Resumable': { description: 'The version of the protocol, 1.0.0', example: tusVersion, required: true },
} as const

const onAnswers = {
  'Upload-Expires': 'When an incomplete upload is deleted',
} as const

const receiptOnAnswers = {
  'Upload-Offset': 'The number of bytes that have arrived',
  'Postern-Receipt': 'The receipt of a complete upload, as a compact JWS',
} as const

const ownUpload = { path: '/api/v1/evidence/uploads/:id', params: z.strictObject({ id: uuidSchema }) } as const

const completionProblems = [
  'not_found',
  'unsupported_protocol',
  'unsupported_media_type',
  'invalid_content',
  'digest_mismatch',
  'insufficient_storage',
  'quota_exceeded',
] as const

export const createUpload = defineRoute({
  ...base,
  id: 'evidence.create-upload',
  method: 'POST',
  path: '/api/v1/evidence/uploads',
  summary: 'Create a resumable upload',
  description:
    'tus 1.0 (creation, termination, checksum, expiration): send pieces with PATCH; after a failure, HEAD returns the offset to resume at. Clients that cannot send PATCH or DELETE send POST with `X-HTTP-Method-Override`. Keys of Upload-Metadata: `filename`, `filetype`, and `metadata` (EvidenceDetails as JSON); others are ignored. The response to the last piece has the receipt in Postern-Receipt, and so has HEAD afterwards. The receipt leaves out test procedures that were completed during the upload.',
  requestHeaders: {
    ...version,
    'Upload-Length': { description: 'The size of the file in bytes', example: '1048576', required: true },
    'Upload-Metadata': {
      description: 'Keys with values in base64, separated by commas; at most 4096 characters',
      example: 'filename YWNjZXNzLXJldmlldy5jc3Y=,filetype dGV4dC9jc3Y=',
      required: true,
    },
  },
  answers: { 201: { description: 'The upload is at Location', headers: onAnswers, withoutHeaders: ['ETag'] } },
  problems: [
    'unsupported_protocol',
    'content_too_large',
    'unsupported_media_type',
    'malformed_json',
    'invalid_content',
    'insufficient_storage',
    'quota_exceeded',
    'not_found',
    'procedure_locked',
  ],
})

export const readUpload = defineRoute({
  ...base,
  ...ownUpload,
  id: 'evidence.read-upload',
  method: 'HEAD',
  summary: 'Read how much of an upload has arrived',
  description: 'If all bytes have arrived, this also retries a completion that failed before.',
  requestHeaders: version,
  assertionSeconds: 270,
  answers: {
    200: {
      description: 'The position to resume at',
      headers: {
        ...onAnswers,
        ...receiptOnAnswers,
        'Upload-Length': 'The size of the file',
        'Upload-Metadata': 'The metadata from the creation of the upload',
      },
    },
  },
  problems: completionProblems,
})

export const appendUpload = defineRoute({
  ...base,
  ...ownUpload,
  id: 'evidence.append-upload',
  method: 'PATCH',
  summary: 'Send a piece of an upload',
  description:
    'A piece that begins where the last one ended. The last piece stores the evidence and returns its receipt.',
  bodyMediaTypes: [offsetMediaType],
  maxBodyBytes: maxEvidenceBytes,
  assertionSeconds: 270,
  requestHeaders: {
    ...version,
    'Upload-Offset': { description: 'Where the piece begins: the Upload-Offset of HEAD', example: '0', required: true },
    'Upload-Checksum': {
      description: 'sha256 or sha1, and the digest of the piece in base64',
      example: 'sha256 X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=',
    },
  },
  answers: { 204: { description: 'The piece has arrived', headers: { ...onAnswers, ...receiptOnAnswers } } },
  problems: ['conflict', 'content_too_large', 'checksum_mismatch', ...completionProblems],
})

export const deleteUpload = defineRoute({
  ...base,
  ...ownUpload,
  id: 'evidence.delete-upload',
  method: 'DELETE',
  summary: 'Delete an upload',
  description: 'Ends an unfinished upload and deletes its bytes.',
  requestHeaders: version,
  answers: { 204: { description: 'Deleted' } },
  problems: ['not_found', 'conflict', 'unsupported_protocol'],
})

/** Public: clients ask before they send credentials. */
const describing = {
  ...base,
  method: 'OPTIONS',
  access: { kind: 'public' },
  answers: {
    204: {
      description: 'The supported versions and extensions',
      headers: {
        'Tus-Version': 'The versions of the protocol',
        'Tus-Extension': 'The extensions of the protocol',
        'Tus-Max-Size': 'The largest file in bytes',
      },
    },
  },
} as const

export const describeUploads = defineRoute({
  ...describing,
  id: 'evidence.describe-uploads',
  path: createUpload.path,
  summary: 'Read which parts of tus are supported',
  description: 'For tus clients, which ask this before they send credentials.',
})

export const describeUpload = defineRoute({
  ...describing,
  ...ownUpload,
  id: 'evidence.describe-upload',
  summary: 'Read the same for an upload',
  description: 'The response is the same for every upload, even if it does not exist.',
})

export const resumableRoutes = [
  createUpload,
  readUpload,
  appendUpload,
  deleteUpload,
  describeUploads,
  describeUpload,
] as const
