import {
  type ApplyAnswer,
  type CurrentRowsBody,
  type EntitySourcesBody,
  type ImportBatch,
  applyAnswerSchema,
  currentRowsAnswerSchema,
  internalPaths,
  stopImportAnswerSchema,
} from '@postern/contracts/internal'
import {
  type Connector,
  type InputError,
  assertionHeader,
  contextHeader,
  problemSchema,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { idleConnections } from '@postern/service-client'
import { type KeyRing, createSigner, serializeContext } from '@postern/signed-context'
import { Pool } from 'undici'
import type { CurrentAnswer } from './current-parts.ts'

export type Dataset = Connector['dataset']

interface Destination {
  readonly path: string
  /** The member of the body that holds the rows. */
  readonly rows: string
  /** The member of the body that is the whole of what the caller has sent. */
  readonly list: string | undefined
}

/** Where the universe takes each dataset. */
const destinations: Readonly<Record<Dataset, Destination>> = {
  auditable_entities: { path: internalPaths.pushEntities, rows: 'entities', list: 'entities' },
  org_structure: { path: internalPaths.pushOrgStructures, rows: 'nodes', list: undefined },
  test_procedures: { path: internalPaths.pushTestProcedures, rows: 'test_procedures', list: 'test_procedures' },
  people: { path: internalPaths.pushPeople, rows: 'people', list: 'people' },
}

/** In whose name the universe is asked. */
export interface Asker {
  readonly tenantId: string
  /** Passed on from the gateway: the universe's rows open to it as they would to a request of the same tenant. */
  readonly assertion: string
  readonly runId: string
  /** What the rows are kept as coming from. Undefined where nothing is pushed. */
  readonly connectorId?: string
  /** Whose push it is, for the universe's own records. */
  readonly label: string
  readonly requestId: string
}

/** One push, as the universe is asked to apply it: all rows or none. */
interface Application extends Asker {
  readonly dataset: Dataset
  /** The body, but for the run's id. */
  readonly body: object
}

/** As an Application, of rows that are JSON already: a batch of a run's changes, which the universe applies once. */
export interface RowsApplication extends Asker {
  readonly dataset: Dataset
  readonly batch: ImportBatch
  /** Members of the body beside the rows. */
  readonly more: object
  readonly rows: readonly string[]
}

/** What the universe has made of a push. */
export type ApplicationOutcome =
  | { readonly kind: 'applied'; readonly counts: ApplyAnswer }
  /** The rows are not valid together; nothing was changed. Pointers are into what the caller has sent. */
  | { readonly kind: 'refused'; readonly detail: string | undefined; readonly errors: readonly InputError[] }
  | { readonly kind: 'conflict'; readonly detail: string | undefined }
  | { readonly kind: 'too_large' }
  /** It could not be reached; nothing was changed. */
  | { readonly kind: 'unreachable'; readonly cause: unknown }
  /** It says that it cannot do it now, perhaps after having begun. */
  | { readonly kind: 'unavailable' }
  /** No answer in time, or none at all: it may have applied the rows. Pushing them again is harmless. */
  | { readonly kind: 'unknown'; readonly timedOut: boolean; readonly cause: unknown }
  /** It answered what the contract does not have. */
  | { readonly kind: 'unexpected'; readonly status: number }

/** The universe gave no answer that could be used. To ask again changes nothing. */
export class UniverseUnavailable extends Error {
  override readonly name = 'UniverseUnavailable'
}

export interface Universe {
  apply(application: Application): Promise<ApplicationOutcome>
  applyRows(application: RowsApplication): Promise<ApplicationOutcome>
  /**
   * Returns the sequence of the last batch of the run that was applied, and has later ones of this attempt rejected. Waits for a batch that
   * is being applied. Throws UniverseUnavailable.
   */
  stopImport(asker: Asker, attempt: number): Promise<number>
  /** How rows stand now, by their keys: of the first of them, where they are long. Throws UniverseUnavailable. */
  currentRows(asker: Asker, body: CurrentRowsBody): Promise<CurrentAnswer>
  /** Tells where entities come from, for the connector that asks. Throws UniverseUnavailable; again is harmless. */
  tellSources(asker: Asker, body: EntitySourcesBody): Promise<void>
  close(): Promise<void>
}

const maxConnections = 16
/** The universe tells of rows in parts of some 24 MiB. */
const maxAnswerBytes = 64 * 1024 * 1024
const connectTimeoutMs = 2_000

/** Connections to the universe service, kept alive. Every request is signed anew (RFC 9421) and sent once: no retries. */
export function openUniverse(
  { url, ring, timeoutMs }: { readonly url: string; readonly ring: KeyRing; readonly timeoutMs: number },
  now: () => number,
): Universe {
  const pool = new Pool(new URL(url).origin, {
    connections: maxConnections,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs },
    ...idleConnections,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: maxAnswerBytes,
  })
  const signer = createSigner(ring, 'sync-universe')
  const post = async (asker: Asker, path: string, content: Buffer): Promise<{ status: number; body: unknown }> => {
    const method = 'POST'
    const headers = signedHeaders(asker, content.length)
    const { signatureInput, signature } = signer.sign(
      {
        method,
        target: path,
        context: headers[contextHeader],
        assertion: headers[assertionHeader],
        requestId: headers[requestIdHeader],
        contentType: headers['content-type'],
        contentLength: headers['content-length'],
      },
      now(),
    )
    const answer = await pool.request({
      method,
      path,
      headers: { ...headers, [signatureInputHeader]: signatureInput, [signatureHeader]: signature },
      body: content,
      signal: AbortSignal.timeout(timeoutMs),
    })
    return { status: answer.statusCode, body: parseJson(await answer.body.text()) }
  }
  const applyContent = async (asker: Asker, dataset: Dataset, content: Buffer): Promise<ApplicationOutcome> => {
    const { path, list } = destinations[dataset]
    try {
      const answer = await post(asker, path, content)
      return outcomeOf(answer.status, answer.body, list)
    } catch (error) {
      return failureOf(error)
    }
  }
  const ask = async (asker: Asker, path: string, body: object): Promise<unknown> => {
    const answer = await post(asker, path, Buffer.from(JSON.stringify(body))).catch((cause: unknown) => {
      throw new UniverseUnavailable('the universe cannot be asked', { cause })
    })
    if (answer.status !== 200) throw new UniverseUnavailable(`the universe answered ${answer.status}`)
    return answer.body
  }
  return {
    apply: async (application) =>
      await applyContent(
        application,
        application.dataset,
        Buffer.from(JSON.stringify({ run_id: application.runId, ...application.body })),
      ),
    applyRows: async (application) => await applyContent(application, application.dataset, contentOf(application)),
    stopImport: async (asker, attempt) => {
      const answer = await ask(asker, internalPaths.stopImport, { run_id: asker.runId, attempt })
      return stopImportAnswerSchema.parse(answer).sequence
    },
    currentRows: async (asker, body) => {
      const answer = await ask(asker, internalPaths.currentRows, { ...body, in_parts: true })
      const { rows, reached = body.keys.length } = currentRowsAnswerSchema.parse(answer)
      return { rows, reached }
    },
    tellSources: async (asker, body) => void (await ask(asker, internalPaths.entitySources, body)),
    close: async () => await pool.close(),
  }
}

/** Rows that become one text: beyond 128 KiB, which a hundred are seldom, V8 keeps one by itself, and takes many times as long to make it. */
const rowsAText = 100

function contentOf({ dataset, runId, batch, more, rows }: RowsApplication): Buffer {
  const head = JSON.stringify({ run_id: runId, batch, ...more }).slice(0, -1)
  const parts = [Buffer.from(`${head},"${destinations[dataset].rows}":[`)]
  for (let at = 0; at < rows.length; at += rowsAText) {
    parts.push(Buffer.from(`${at === 0 ? '' : ','}${rows.slice(at, at + rowsAText).join(',')}`))
  }
  parts.push(Buffer.from(']}'))
  return Buffer.concat(parts)
}

function signedHeaders({ tenantId, assertion, runId, connectorId, label, requestId }: Asker, contentLength: number) {
  const id = connectorId ?? runId
  return {
    [contextHeader]: serializeContext({ tenantId, kind: 'service', id, label, scopes: [], roles: [] }),
    [assertionHeader]: assertion,
    [requestIdHeader]: requestId,
    'content-type': 'application/json',
    'content-length': String(contentLength),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function outcomeOf(status: number, body: unknown, list: string | undefined): ApplicationOutcome {
  if (status === 200) {
    const counts = applyAnswerSchema.safeParse(body)
    return counts.success ? { kind: 'applied', counts: counts.data } : { kind: 'unexpected', status }
  }
  const problem = problemSchema.safeParse(body).data
  switch (status) {
    case 422:
      return { kind: 'refused', detail: problem?.detail, errors: toCallersErrors(problem?.errors ?? [], list) }
    case 409:
      return { kind: 'conflict', detail: problem?.detail }
    case 413:
      return { kind: 'too_large' }
    case 503:
      return { kind: 'unavailable' }
    default:
      return { kind: 'unexpected', status }
  }
}

/** Where the caller sent an array alone, `/entities/3/name` of the internal body is `/3/name` of theirs. */
function toCallersErrors(errors: readonly InputError[], list: string | undefined): InputError[] {
  if (list === undefined) return [...errors]
  return errors.map(({ pointer = '', ...rest }) => {
    const isInList = pointer.startsWith(`/${list}/`)
    return { ...rest, pointer: isInList ? pointer.slice(list.length + 1) : '' }
  })
}

/** Errors of name resolution and of connecting: no byte of the request has left. */
const beforeSending: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
])
const timeouts: ReadonlySet<unknown> = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])

function failureOf(cause: unknown): ApplicationOutcome {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  if (beforeSending.has(code)) return { kind: 'unreachable', cause }
  const timedOut = timeouts.has(code) || (cause instanceof Error && cause.name === 'TimeoutError')
  return { kind: 'unknown', timedOut, cause }
}
