import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { agentOpenApi, swaggerOf } from '@postern/contracts'
import { guideNames } from './guides/names.ts'
import { guidesPolicy } from './guides/style.ts'
import { referencePolicy } from './reference-page.ts'

export const codings = ['br', 'gzip'] as const
type ContentCoding = (typeof codings)[number]

interface EncodedDocument {
  readonly content: Buffer
  readonly etag: string
}

export interface Document {
  readonly mediaType: string
  readonly content: Buffer
  readonly etag: string
  readonly coded: Readonly<Record<ContentCoding, EncodedDocument>>
  readonly headers: readonly string[]
}

export interface Documents {
  openApi(): Promise<Document>
  agentOpenApi(): Promise<Document>
  swagger(): Promise<Document>
  reference(): Promise<Document>
  referenceScript(): Promise<Document>
  guides(): Promise<Document>
  /** Undefined if there is no such guide. */
  guide(name: string): Promise<Document> | undefined
}

/** What `build-documents.ts` writes. The same from `src` and `dist`. */
export const documentsFolder = new URL('../dist/documents/', import.meta.url)

/** Reads each document on first use, one after the other, so that first requests cost little memory. */
export function createDocuments(apiUrl: string): Documents {
  const known = new Map<string, Promise<Document>>()
  let last: Promise<unknown> = Promise.resolve()
  const once = (name: string, read: () => Promise<Document>): Promise<Document> => {
    const found = known.get(name)
    if (found !== undefined) return found
    const document = last.then(read)
    last = document.catch(() => known.delete(name))
    known.set(name, document)
    return document
  }
  const openApi = (name: string, form: (published: Json) => object) =>
    once(name, async () => await asOpenApi(form({ ...(await readPublished()), servers: [{ url: apiUrl }] })))
  const page = (name: string, policy: string) => once(name, async () => await readPage(name, policy))
  return {
    openApi: () => openApi('openapi', (published) => published),
    agentOpenApi: () => openApi('agents', agentOpenApi),
    swagger: () => openApi('swagger', swaggerOf),
    reference: () => page('reference.html', referencePolicy),
    referenceScript: () =>
      once('reference.js', async () => await readCoded('reference.js', 'text/javascript; charset=utf-8', [])),
    guides: () => page('guides.html', guidesPolicy),
    guide: (name) => (guideNames.has(name) ? page(`guides/${name}.html`, guidesPolicy) : undefined),
  }
}

type Json = Record<string, unknown>

async function readPublished(): Promise<Json> {
  return JSON.parse(await readFile(new URL('openapi.json', documentsFolder), 'utf8'))
}

/** Compressed here, because the address of the API is in it. */
async function asOpenApi(value: object): Promise<Document> {
  const plain = Buffer.from(JSON.stringify(value))
  const params = { [constants.BROTLI_PARAM_QUALITY]: 5 }
  const br = await promisify(brotliCompress)(plain, { params })
  const zipped = await promisify(gzip)(plain)
  return documentOf('application/json; charset=utf-8', [], plain, br, zipped)
}

async function readPage(name: string, policy: string): Promise<Document> {
  const headers = ['content-security-policy', policy, 'referrer-policy', 'no-referrer']
  return await readCoded(name, 'text/html; charset=utf-8', headers)
}

async function readCoded(name: string, mediaType: string, headers: readonly string[]): Promise<Document> {
  const read = async (ending: string) => await readFile(new URL(`${name}${ending}`, documentsFolder))
  return documentOf(mediaType, headers, await read(''), await read('.br'), await read('.gzip'))
}

function documentOf(
  mediaType: string,
  headers: readonly string[],
  plain: Buffer,
  br: Buffer,
  zipped: Buffer,
): Document {
  return { mediaType, headers, ...withEtag(plain), coded: { br: withEtag(br), gzip: withEtag(zipped) } }
}

function withEtag(content: Buffer): EncodedDocument {
  return { content, etag: `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"` }
}
