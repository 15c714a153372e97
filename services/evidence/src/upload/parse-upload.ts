import {
  type EvidenceDetails,
  type ProblemCode,
  evidenceDetailsSchema,
  fileNameSchema,
  isPeriodOrdered,
  wordsOf,
} from '@postern/contracts'
import {
  ProblemError,
  type RequestInfo,
  bodyError,
  discardRest,
  inputErrors,
  normalizeBody,
  parseJsonBody,
  problem,
} from '@postern/service-kit'
import { type BlobStore, type IncomingBlob, type PendingBlob } from '../blob/blob-store.ts'
import { readMultipart } from './multipart.ts'
import { type ReceiveLimits, type ReceivedBody, receiveBody } from './receive.ts'
import type { LocateInput } from '../test-procedure/check.ts'
import { digestMismatchProblem, formProblem, tooSlowProblem } from './refusal.ts'
import { assertFileKind, parseFileHead, parseFormHead } from './declared.ts'
import { findUntimely } from './rules.ts'

export interface ReceivedFile {
  readonly fileName: string
  readonly contentType: string
  readonly body: ReceivedBody
  readonly blob: PendingBlob
}

export interface ParsedUpload {
  readonly files: readonly ReceivedFile[]
  readonly details: EvidenceDetails
  readonly procedureIds: readonly string[]
  readonly isMultipart: boolean
}

export type UploadQuery = Omit<EvidenceDetails, 'collected_by' | 'query_text' | 'test_procedures' | 'sha256'> & {
  readonly file_name?: string | undefined
  readonly test_procedure?: readonly string[] | undefined
}

/** For an unavailable universe, after an upload has arrived. */
export const universeWaitMs = 8_000

interface Parts {
  readonly blobs: BlobStore
  readonly limits: ReceiveLimits
  readonly maxFiles: number
  readonly now: () => number
  readonly assertQuota: (bytes: number) => Promise<void>
  readonly requireTestProcedures: (
    addresses: readonly string[],
    locateInput: LocateInput,
    waitMs?: number,
  ) => Promise<readonly string[]>
}

export async function parseUpload(
  { raw, query, context }: Pick<RequestInfo, 'raw' | 'context'> & { readonly query: UploadQuery },
  parts: Parts,
): Promise<ParsedUpload> {
  const { headers } = raw
  const contentType = headers['content-type']
  const { tenantId } = context
  const arrived: ArrivedFile[] = []
  try {
    const isMultipart = contentType !== undefined && /^multipart\/form-data\s*(?:;|$)/i.test(contentType)
    const { details, locateInput } = isMultipart
      ? await parseForm(raw.body, contentType, { tenantId, headers, query, arrived }, parts)
      : await parseSingle(raw.body, { tenantId, headers, query, arrived }, parts)
    await parts.assertQuota(arrived.reduce((sum, { body }) => sum + (body?.sizeBytes ?? 0), 0))
    if (!parts.limits.isInTime()) throw tooSlowProblem()
    // Again, because a test procedure that was completed meanwhile accepts no evidence.
    const procedureIds = await parts.requireTestProcedures(details.test_procedures ?? [], locateInput, universeWaitMs)
    const files: ReceivedFile[] = []
    for (const { fileName, contentType: type, body, incoming } of arrived) {
      if (incoming === undefined || body === undefined) throw new Error('a file of the upload was not received')
      files.push({ fileName, contentType: type, body, blob: await incoming.settle(tenantId, body.sha256) })
    }
    return { files, details, procedureIds, isMultipart }
  } catch (error) {
    void discardRest(raw.body)
    throw error
  } finally {
    for (const { incoming } of arrived) await incoming?.discard()
  }
}

interface ArrivedFile {
  readonly fileName: string
  readonly contentType: string
  incoming?: IncomingBlob
  body?: ReceivedBody
}

type Described = Pick<ParsedUpload, 'details'> & { readonly locateInput: LocateInput }

interface Upload {
  readonly tenantId: string
  readonly headers: RequestInfo['raw']['headers']
  readonly query: UploadQuery
  readonly arrived: ArrivedFile[]
}

async function parseSingle(stream: unknown, upload: Upload, parts: Parts): Promise<Described> {
  const { file_name: fileName, test_procedure: testProcedures, ...brief } = upload.query
  const head = parseFileHead(upload.headers, fileName, parts.limits)
  if (!isPeriodOrdered(brief)) {
    throw problem('bad_request', {
      errors: [{ parameter: 'period_end', code: 'invalid', detail: 'must not be before period_start' }],
    })
  }
  const untimely = findUntimely(brief, parts.now())
  if (untimely !== undefined) {
    throw problem('bad_request', {
      errors: [{ parameter: untimely.member, code: 'in_future', detail: untimely.detail }],
    })
  }
  if (head.declared.contentLength !== undefined) await parts.assertQuota(head.declared.contentLength)
  const named = testProcedures ?? []
  await parts.requireTestProcedures(named, pointToQuery)
  const file: ArrivedFile = { fileName: head.fileName, contentType: head.declared.contentType }
  upload.arrived.push(file)
  file.incoming = await parts.blobs.openIncoming(upload.tenantId)
  file.body = await receiveBody(stream, file.incoming, head.declared, parts.limits)
  return { details: { ...brief, test_procedures: [...named] }, locateInput: pointToQuery }
}

async function parseForm(
  stream: unknown,
  contentType: string,
  { tenantId, headers, query, arrived }: Upload,
  parts: Parts,
): Promise<Described> {
  const contentLength = parseFormHead(headers, parts.limits.maxBytes)
  assertQueryEmpty(query)
  if (contentLength !== undefined) await parts.assertQuota(contentLength)
  let details = parseDetails({}, parts.now())
  let hasMetadata = false
  await readMultipart(stream, contentType, {
    stallMs: parts.limits.stallMs,
    reader: {
      onMetadata: (json) => {
        details = parseDetails(parseJsonBody(json), parts.now())
        hasMetadata = true
      },
      onFile: async ({ fileName, contentType: type, stream: bytes }) => {
        if (arrived.length === parts.maxFiles) {
          throw formProblem(`There may be at most ${parts.maxFiles} ${parts.maxFiles === 1 ? 'file' : 'files'}.`)
        }
        const index = arrived.length
        if (index === 0 && hasMetadata) await parts.requireTestProcedures(details.test_procedures ?? [], pointTo)
        const file: ArrivedFile = { fileName: parseFileName(fileName, index), contentType: type }
        arrived.push(file)
        try {
          assertFileKind(file.fileName, type, parts.limits.allowedTypes)
          file.incoming = await parts.blobs.openIncoming(tenantId)
          const declared = { contentType: type, contentLength: undefined, sha256: details.sha256?.[index] }
          file.body = await receiveBody(bytes, file.incoming, declared, parts.limits)
        } catch (error) {
          throw addFileNumber(index, error)
        }
      },
    },
  })
  if (arrived.length === 0) throw formProblem('There must be a part `file`.')
  if (details.sha256 !== undefined && details.sha256.length !== arrived.length) {
    throw problem('invalid_content', {
      errors: [{ pointer: '/sha256', code: 'invalid', detail: 'must have one digest for each file' }],
    })
  }
  for (const [index, { body }] of arrived.entries()) {
    const expected = details.sha256?.[index]
    if (expected !== undefined && body?.sha256 !== expected) throw addFileNumber(index, digestMismatchProblem())
  }
  return { details, locateInput: pointTo }
}

const faultsOfFile: ReadonlySet<ProblemCode> = new Set([
  'invalid_content',
  'content_too_large',
  'unsupported_media_type',
  'digest_mismatch',
])

function addFileNumber(index: number, error: unknown): unknown {
  if (!(error instanceof ProblemError) || !faultsOfFile.has(error.code)) return error
  const { detail = '', ...options } = error.options
  return problem(error.code, { ...options, detail: `File ${index + 1} of the form: ${detail}` })
}

const pointToQuery: LocateInput = () => ({ parameter: 'test_procedure' })
const pointTo: LocateInput = (index) => ({ pointer: `/test_procedures/${index}` })

function assertQueryEmpty({ classification, ...query }: UploadQuery): void {
  const [given] = Object.entries(query).find(([, value]) => value !== undefined) ?? []
  const parameter = given ?? (classification === 'confidential' ? undefined : 'classification')
  if (parameter === undefined) return
  throw problem('bad_request', {
    errors: [{ parameter, code: 'unknown', detail: 'belongs in the part `metadata` of a multipart upload' }],
  })
}

export function parseDetails(value: unknown, now: number): EvidenceDetails {
  // The text of a query is evidence: it is stored unchanged.
  const parsed = evidenceDetailsSchema.safeParse(normalizeBody(value, ['query_text']))
  if (parsed.success) {
    const untimely = findUntimely(parsed.data, now)
    if (untimely === undefined) return parsed.data
    throw problem('invalid_content', {
      errors: [{ pointer: `/${untimely.member}`, code: 'in_future', detail: untimely.detail }],
    })
  }
  throw problem('invalid_content', {
    errors: inputErrors(parsed.error, 'body', { value, schema: evidenceDetailsSchema }),
  })
}

function parseFileName(given: string, index: number): string {
  const parsed = fileNameSchema.safeParse(given)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const detail = `The file name of part ${index + 1} ${issue === undefined ? 'is not valid' : wordsOf(issue)}.`
  throw problem('invalid_content', { detail, errors: [bodyError(detail)] })
}
