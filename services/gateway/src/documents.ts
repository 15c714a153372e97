import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { agentOpenApi, openApiInTurns, publishedOpenApiInTurns, swaggerOf } from '@postern/contracts'
import { createGuides, guidesPolicy } from './guides/pages.ts'
import { referencePage, referencePolicy, referenceScript } from './reference-page.ts'

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

/** Each document is created on first use, without blocking other requests. */
export function createDocuments(apiUrl: string): Documents {
  let published: Promise<Record<string, unknown>> | undefined
  let document: Promise<Document> | undefined
  let forAgents: Promise<Document> | undefined
  let swagger: Promise<Document> | undefined
  let reference: Promise<Document> | undefined
  let script: Promise<Document> | undefined
  const guides = createGuides()
  let guidesIndex: Promise<Document> | undefined
  const guidePages = new Map<string, Promise<Document>>()
  const publish = async () =>
    await (published ??= finish(openApiInTurns(apiUrl)).then(
      async (exact) => await finish(publishedOpenApiInTurns(exact)),
    ))
  return {
    openApi: async () => await (document ??= publish().then(asDocument)),
    agentOpenApi: async () => await (forAgents ??= publish().then((all) => asDocument(agentOpenApi(all)))),
    swagger: async () => await (swagger ??= publish().then((all) => asDocument(swaggerOf(all)))),
    reference: async () => await (reference ??= asPage(referencePage, referencePolicy)),
    referenceScript: async () => await (script ??= referenceScript().then(asScript)),
    guides: async () => await (guidesIndex ??= guides.index().then(asGuide)),
    guide: (name) => {
      const known = guidePages.get(name)
      if (known !== undefined) return known
      const page = guides.find(name)?.then(asGuide)
      if (page !== undefined) guidePages.set(name, page)
      return page
    },
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
  const coded = await encode(content)
  return { mediaType: 'application/json; charset=utf-8', content, etag: etagOf(content), coded, headers: [] }
}

async function asPage(content: Buffer, policy: string): Promise<Document> {
  const headers = ['content-security-policy', policy, 'referrer-policy', 'no-referrer']
  const coded = await encode(content)
  return { mediaType: 'text/html; charset=utf-8', content, etag: etagOf(content), coded, headers }
}

async function asGuide(content: Buffer): Promise<Document> {
  return await asPage(content, guidesPolicy)
}

async function asScript(content: Buffer): Promise<Document> {
  const coded = await encode(content, 5)
  return { mediaType: 'text/javascript; charset=utf-8', content, etag: etagOf(content), coded, headers: [] }
}

async function encode(bytes: Buffer, quality = 9): Promise<Document['coded']> {
  const [br, zipped] = await Promise.all([
    promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }),
    promisify(gzip)(bytes),
  ])
  return { br: { content: br, etag: etagOf(br) }, gzip: { content: zipped, etag: etagOf(zipped) } }
}

function etagOf(content: Buffer): string {
  return `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
}
