import { fileNameSchema, tusVersion } from '@postern/contracts'
import { type AnswerControl, type RequestInfo, inputErrors, parseJsonBody, problem } from '@postern/service-kit'
import type { Config } from '../config.ts'
import { emptyFileProblem, fileTooLargeProblem } from '../upload/refusal.ts'
import { assertFileKind } from '../upload/declared.ts'
import { parseDetails } from '../upload/parse-upload.ts'
import { parseBytes, parseMetadata, speaksTus } from './rules.ts'
import type { ResumableUpload } from './store.ts'

type Headers = RequestInfo['raw']['headers']

export function assertTusVersion(answer: AnswerControl, headers: Headers): void {
  answer.header('cache-control', 'no-store')
  if (!speaksTus(headers)) {
    answer.header('tus-version', tusVersion)
    throw problem('unsupported_protocol', { detail: 'Send Tus-Resumable: 1.0.0.' })
  }
}

export function readCreation(
  headers: Headers,
  { maxFileBytes, allowedTypes }: Pick<Config, 'maxFileBytes' | 'allowedTypes'>,
  now: number,
): Pick<ResumableUpload, 'length' | 'fileName' | 'contentType' | 'details' | 'metadata'> {
  assertPlain(headers)
  if (headers['upload-concat'] !== undefined) {
    throw badHeader('Upload-Concat', 'is not supported: send each file as one upload')
  }
  const length = parseBytes(headers['upload-length'])
  if (length === undefined) throw badHeader('Upload-Length', 'must be the number of bytes of the file')
  if (length === 0) throw emptyFileProblem()
  if (length > maxFileBytes) throw fileTooLargeProblem()
  const given = headers['upload-metadata']
  if (typeof given !== 'string')
    throw badHeader('Upload-Metadata', 'is missing: send it with the key filename and the name of the file in base64')
  const metadata = parseMetadata(given)
  if (typeof metadata === 'string') throw badHeader('Upload-Metadata', metadata)
  const fileName = fileNameSchema.safeParse(metadata.filename)
  if (!fileName.success) {
    const [fault] = inputErrors(fileName.error, 'parameter')
    throw badHeader('Upload-Metadata', `filename: ${fault?.detail ?? 'is not a file name'}`)
  }
  // Browsers send an empty type if it is unknown.
  const { filetype = '', metadata: json = '' } = metadata
  const contentType = filetype === '' ? 'application/octet-stream' : filetype
  assertFileKind(fileName.data, contentType, allowedTypes)
  const described = json === '' ? {} : parseJsonBody(Buffer.from(json))
  const details = parseDetails(described, now)
  if (details.sha256 !== undefined && details.sha256.length !== 1) {
    throw problem('invalid_content', {
      errors: [
        { parameter: 'Upload-Metadata', code: 'invalid', detail: 'must have one digest in `sha256` of metadata' },
      ],
    })
  }
  return { length, fileName: fileName.data, contentType, details, metadata: given }
}

/** Throws a problem for headers that would promise something about the bytes. */
export function assertPlain(headers: Headers): void {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') {
    throw problem('unsupported_media_type', { detail: 'Send the bytes without a Content-Encoding.' })
  }
  for (const name of ['Content-Digest', 'Repr-Digest']) {
    if (headers[name.toLowerCase()] === undefined) continue
    throw badHeader(name, 'is not checked here: send Upload-Checksum with each piece, or `sha256` in the details')
  }
}

export function badHeader(parameter: string, detail: string): Error {
  return problem('bad_request', {
    errors: [{ parameter, code: 'invalid', detail }],
  })
}
