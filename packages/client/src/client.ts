import type {
  Entity,
  Finding,
  FindingStub,
  Receipt,
  Whoami,
  createFindingBodySchema,
  listEntities,
  listFindings,
} from '@postern/contracts'
import { type Connection, type ConnectionOptions, connect, readJson } from './connection.ts'
import { Pages } from './pages.ts'

/** What a schema of contracts takes in, and what it gives. */
type Input<S extends { readonly _zod: { readonly input: unknown } }> = S['_zod']['input']
type Output<S extends { readonly _zod: { readonly output: unknown } }> = S['_zod']['output']

/** Filters of a list; one that takes several values means any of them. Pages are followed, so there is no cursor. */
type Filter<Q> = { readonly [N in Exclude<keyof Q, 'cursor' | 'count'>]?: OneOrSeveral<NonNullable<Q[N]>> }
type OneOrSeveral<V> = V extends readonly (infer E)[] ? E | readonly E[] : V

/** Filters of a list of findings, `limit` (the size of a page) and `sort`. */
export type FindingFilter = Filter<Output<(typeof listFindings)['query']>>
/** Filters of a list of auditable entities, and `limit` (the size of a page). */
export type EntityFilter = Filter<Output<(typeof listEntities)['query']>>
/** A finding to document. */
export type NewFinding = Input<typeof createFindingBodySchema>

export interface EvidenceUpload {
  /** The file. A stream is sent as it comes, in constant memory. */
  readonly content: Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>
  readonly fileName: string
  /** Media type; default `application/octet-stream`. */
  readonly contentType?: string
  /** Ids or references of the test procedures that the file is evidence for. */
  readonly testProcedures?: readonly string[]
  /** Ends the upload; without it there is no limit. */
  readonly signal?: AbortSignal
}

/** The API as one key may use it. All methods throw PosternProblem when the API refuses. Nothing is tried twice. */
export interface PosternClient {
  readonly findings: {
    /** Needs `read:findings`. */
    list(filter?: FindingFilter): Pages<Finding>
    /** By id, `ref:<reference>` or `ext:<external id>`. Needs `read:findings`. */
    get(address: string): Promise<Finding>
    /** Needs `write:findings`; a key that cannot read findings gets id, reference, version and status alone. */
    create(finding: NewFinding): Promise<Finding | FindingStub>
  }
  readonly entities: {
    /** Needs `read:universe`. */
    list(filter?: EntityFilter): Pages<Entity>
  }
  readonly evidence: {
    /** Needs `write:evidence`. Keep the receipt: nothing uploaded can be read back with a key. */
    upload(upload: EvidenceUpload): Promise<Receipt>
  }
  /** Who the key is and what it may do. */
  whoami(): Promise<Whoami>
}

/** Gives a client of the API. Throws a TypeError when the address or the key cannot be right; nothing is sent yet. */
export function createPosternClient(options: ConnectionOptions): PosternClient {
  const connection = connect(options)
  return {
    findings: {
      list: (filter = {}) => new Pages(connection, `/api/v1/findings${queryOf(filter)}`),
      get: async (address) => await read(connection, `/api/v1/findings/${segment(address)}`),
      create: async (finding) => await post(connection, '/api/v1/findings', finding),
    },
    entities: { list: (filter = {}) => new Pages(connection, `/api/v1/entities${queryOf(filter)}`) },
    evidence: { upload: async (upload) => await uploadFile(connection, upload) },
    whoami: async () => await read(connection, '/api/v1/whoami'),
  }
}

async function read<T>(connection: Connection, target: string): Promise<T> {
  const answer = await connection.send({ method: 'GET', target })
  return await readJson(answer)
}

async function post<T>(connection: Connection, target: string, body: unknown): Promise<T> {
  const headers = { 'content-type': 'application/json' }
  const answer = await connection.send({ method: 'POST', target, headers, body: JSON.stringify(body) })
  return await readJson(answer)
}

async function uploadFile(connection: Connection, upload: EvidenceUpload): Promise<Receipt> {
  const { content, fileName, testProcedures = [], contentType = 'application/octet-stream', signal } = upload
  const answer = await connection.send({
    method: 'POST',
    target: `/api/v1/evidence${queryOf({ file_name: fileName, test_procedure: testProcedures })}`,
    headers: { 'content-type': contentType, ...(await digestOf(content)) },
    body: content,
    // A large file may take its time.
    signal: signal ?? new AbortController().signal,
  })
  return await readJson(answer)
}

/** What lies in memory is sent with its digest (RFC 9530), so that a byte that changes on the way is noticed. */
async function digestOf(content: EvidenceUpload['content']): Promise<{ 'content-digest'?: string }> {
  if (!(content instanceof Uint8Array)) return {}
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  return { 'content-digest': `sha-256=:${btoa(String.fromCodePoint(...digest))}:` }
}

/** A query; several values of a parameter are repeated. */
function queryOf(parameters: Readonly<Record<string, string | number | readonly string[] | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    const values = typeof value === 'object' ? value : value === undefined ? [] : [String(value)]
    for (const each of values) query.append(name, each)
  }
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}

/** One path segment. The colon of `ref:` needs no escape, and the gateway refuses needless ones. */
function segment(address: string): string {
  return encodeURIComponent(address).replaceAll('%3A', ':')
}
