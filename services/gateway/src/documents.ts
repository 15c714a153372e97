import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { openApiInTurns, publishedOpenApiInTurns } from '@postern/contracts'
import { referencePage } from './reference-page.ts'

export interface Document {
  readonly mediaType: string
  readonly content: Buffer
  readonly etag: string
  readonly packed: { readonly content: Buffer; readonly etag: string }
  readonly headers: readonly string[]
}

export interface Documents {
  openApi(): Promise<Document>
  reference(): Promise<Document>
}

/** Each document is created on first use, without blocking other requests. */
export function createDocuments(apiUrl: string): Documents {
  let exact: Promise<Record<string, unknown>> | undefined
  let document: Promise<Document> | undefined
  let reference: Promise<Document> | undefined
  const describe = async () => await (exact ??= finish(openApiInTurns(apiUrl)))
  const publish = async () => await finish(publishedOpenApiInTurns(await describe()))
  return {
    openApi: async () => await (document ??= publish().then(asDocument)),
    reference: async () => await (reference ??= describe().then(asReference)),
  }
}

async function finish<T>(work: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    await setImmediate()
  }
}

async function asDocument(value: object): Promise<Document> {
  const content = Buffer.from(JSON.stringify(value))
  const packed = await pack(content)
  return { mediaType: 'application/json; charset=utf-8', content, etag: etagOf(content), packed, headers: [] }
}

async function asReference(value: Record<string, unknown>): Promise<Document> {
  const { html: content, contentSecurityPolicy } = referencePage(value)
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
