import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { openApiInTurns } from '@postern/contracts'
import { referencePage } from './reference-page.ts'

export interface Document {
  readonly mediaType: string
  readonly content: Buffer
  readonly etag: string
  readonly packed: { readonly content: Buffer; readonly etag: string }
  /** Alternating names and values. */
  readonly headers: readonly string[]
}

export interface Documents {
  openApi(): Promise<Document>
  reference(): Promise<Document>
}

/** Creates each document on first use, without blocking other requests. */
export function createDocuments(basePath: string): Documents {
  let described: Promise<string> | undefined
  let document: Promise<Document> | undefined
  let reference: Promise<Document> | undefined
  const describe = async (): Promise<string> => await (described ??= describeInTurns(basePath))
  return {
    openApi: async () => await (document ??= describe().then(asDocument)),
    reference: async () => await (reference ??= describe().then(asReference)),
  }
}

async function describeInTurns(basePath: string): Promise<string> {
  const work = openApiInTurns(basePath === '' ? '/' : basePath)
  for (;;) {
    const step = work.next()
    if (step.done === true) return JSON.stringify(step.value)
    await setImmediate()
  }
}

async function asDocument(text: string): Promise<Document> {
  const content = Buffer.from(text)
  const packed = await pack(content)
  return { mediaType: 'application/json; charset=utf-8', content, etag: etagOf(content), packed, headers: [] }
}

async function asReference(text: string): Promise<Document> {
  const { html: content, contentSecurityPolicy } = referencePage(JSON.parse(text))
  const headers = ['content-security-policy', contentSecurityPolicy, 'referrer-policy', 'no-referrer']
  const packed = await pack(content)
  return { mediaType: 'text/html; charset=utf-8', content, etag: etagOf(content), packed, headers }
}

async function pack(bytes: Buffer): Promise<Document['packed']> {
  const content = await promisify(gzip)(bytes)
  return { content, etag: etagOf(content) }
}

function etagOf(content: Buffer): string {
  return `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
}
