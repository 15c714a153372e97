import { tusVersion } from '@postern/contracts'

type Headers = Readonly<Record<string, string | string[] | undefined>>

export function speaksTus(headers: Headers): boolean {
  return headers['tus-resumable'] === tusVersion
}

export function parseBytes(value: string | string[] | undefined): number | undefined {
  return typeof value === 'string' && /^(?:0|[1-9][0-9]{0,14})$/.test(value) ? Number(value) : undefined
}

export type UploadMetadata = Readonly<Partial<Record<'filename' | 'filetype' | 'metadata', string>>>

const maxMetadataLength = 4096
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** Parses Upload-Metadata of tus 1.0. Returns a text if it is invalid. */
export function parseMetadata(header: string): UploadMetadata | string {
  if (header.length > maxMetadataLength) return `must have at most ${maxMetadataLength} characters`
  const metadata: Partial<Record<'filename' | 'filetype' | 'metadata', string>> = {}
  const seen = new Set<string>()
  for (const pair of header.split(',')) {
    const [key = '', value = '', ...rest] = pair.trim().split(' ')
    if (key === '' || rest.length > 0 || !base64.test(value))
      return 'must be keys with values in base64, separated by commas'
    if (seen.has(key)) return 'must not repeat a key'
    seen.add(key)
    if (key === 'filename' || key === 'filetype' || key === 'metadata') {
      const text = decode(value)
      if (text === undefined) return 'must have values in UTF-8'
      metadata[key] = text
    }
  }
  if (metadata.filename === undefined) {
    return `must have the key filename with the name of the file in base64 (it has ${[...seen].join(', ')})`
  }
  return metadata
}

function decode(value: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(value, 'base64'))
  } catch {
    return undefined
  }
}

export interface Checksum {
  readonly algorithm: 'sha256' | 'sha1'
  readonly digest: string
}

/** Undefined if the header is invalid or unsupported. */
export function parseChecksum(header: string | string[]): Checksum | undefined {
  if (typeof header !== 'string') return undefined
  const [algorithm, digest = '', ...rest] = header.split(' ')
  if ((algorithm !== 'sha256' && algorithm !== 'sha1') || rest.length > 0 || !base64.test(digest)) return undefined
  return Buffer.from(digest, 'base64').length === (algorithm === 'sha256' ? 32 : 20) ? { algorithm, digest } : undefined
}
