import {
  type ApplyAnswer,
  type CurrentRowsAnswer,
  type CurrentRowsBody,
  type EntitySourcesBody,
  type ImportBatch,
  applyAnswerSchema,
  currentRowsAnswerSchema,
  internalPaths,
  stopImportAnswerSchema,
} from '@postern/contracts/internal'
import { type Connector, type InputError, problemSchema } from '@postern/contracts'
import { NoAnswerError, type ServiceRequest, createServiceClient } from '@postern/service-client'
import type { KeyRing } from '@postern/signed-context'
import { z } from 'zod'

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

export interface Universe {
  apply(application: Application): Promise<ApplicationOutcome>
  applyRows(application: RowsApplication): Promise<ApplicationOutcome>
  /**
   * Returns the sequence of the last batch of the run that was applied, and has later ones of this attempt rejected. Waits for a batch that
   * is being applied. Rejects with a ServiceUnavailableError.
   */
  stopImport(asker: Asker, attempt: number): Promise<number>
  /** How rows stand now, by their keys: of the first of them, where they are long. Rejects with a ServiceUnavailableError. */
  currentRows(asker: Asker, body: CurrentRowsBody): Promise<CurrentRowsAnswer>
  /** Tells where entities come from, for the connector that asks. Rejects with a ServiceUnavailableError; asking again is harmless. */
  tellSources(asker: Asker, body: EntitySourcesBody): Promise<void>
  close(): Promise<void>
}

/** The universe tells of rows in parts of some 24 MiB. */
const maxAnswerBytes = 64 * 1024 * 1024

/** Opens a client of the universe service. A push is sent once; questions are asked again if the connection is lost. */
export function openUniverse({
  url,
  ring,
  timeoutMs,
}: {
  readonly url: string
  readonly ring: KeyRing
  readonly timeoutMs: number
}): Universe {
  const { send, ask, close } = createServiceClient({
    service: 'The universe service',
    baseUrl: url,
    keyName: 'sync-universe',
    ring,
    timeoutMs,
    maxAnswerBytes,
  })
  const applyContent = async (asker: Asker, dataset: Dataset, body: Buffer): Promise<ApplicationOutcome> => {
    const { path, list } = destinations[dataset]
    try {
      const answer = await send({
        ...callerOf(asker),
        target: path,
        body,
        headers: { 'content-type': 'application/json' },
      })
      return outcomeOf(answer.status, answer.json, list)
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error
      if (error.isUnsent) return { kind: 'unreachable', cause: error }
      return { kind: 'unknown', timedOut: error.isTimeout, cause: error }
    }
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
      const body = { run_id: asker.runId, attempt }
      const request = { ...callerOf(asker), target: internalPaths.stopImport, body }
      return (await ask(stopImportAnswerSchema, request)).sequence
    },
    currentRows: async (asker, body) => {
      const request = { ...callerOf(asker), target: internalPaths.currentRows, body }
      return await ask(currentRowsAnswerSchema, request)
    },
    tellSources: async (asker, body) => {
      await ask(z.unknown(), { ...callerOf(asker), target: internalPaths.entitySources, body })
    },
    close,
  }
}

function callerOf({
  tenantId,
  assertion,
  runId,
  connectorId,
  label,
  requestId,
}: Asker): Pick<ServiceRequest, 'caller' | 'assertion' | 'requestId'> {
  const caller = { tenantId, kind: 'service', id: connectorId ?? runId, label, scopes: [], roles: [] } as const
  return { caller, assertion, requestId }
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
