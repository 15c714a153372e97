import type { Connector, InputError } from '@postern/contracts'
import { problemSchema } from '@postern/contracts'
import {
  type ApplyAnswer,
  type CurrentRowsAnswer,
  type CurrentRowsBody,
  type RetireSourceBody,
  applyAnswerSchema,
  currentRowsAnswerSchema,
  identifyPeopleAnswerSchema,
  internalPaths,
} from '@postern/contracts/internal'
import { type ServiceAddress, NoAnswerError, createServiceClient } from '@postern/service-client'
import { z } from 'zod'
import { type Imports, openImports } from '../import/imports.ts'
import { type ImportCaller, callerOf } from './import-caller.ts'

export type Dataset = Connector['dataset']

interface Destination {
  readonly path: string
  /** The member of the body with the rows, if the caller sent only an array of them. */
  readonly list: string | undefined
}

const destinations: Readonly<Record<Dataset, Destination>> = {
  auditable_entities: { path: internalPaths.pushEntities, list: 'entities' },
  org_structure: { path: internalPaths.pushOrgStructures, list: undefined },
  test_procedures: { path: internalPaths.pushTestProcedures, list: 'test_procedures' },
  people: { path: internalPaths.pushPeople, list: 'people' },
}

/** A push: the universe applies all of its rows or none. */
interface Application extends ImportCaller {
  readonly dataset: Dataset
  readonly body: object
}

export type ApplicationOutcome =
  | { readonly kind: 'applied'; readonly counts: ApplyAnswer }
  /** Nothing was changed. Pointers refer to what the caller sent. */
  | { readonly kind: 'refused'; readonly detail: string | undefined; readonly errors: readonly InputError[] }
  | { readonly kind: 'conflict'; readonly detail: string | undefined }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'unreachable'; readonly cause: unknown }
  | { readonly kind: 'unavailable' }
  /** No answer: the rows may be applied. Pushing them again is harmless. */
  | { readonly kind: 'unknown'; readonly timedOut: boolean; readonly cause: unknown }
  | { readonly kind: 'unexpected'; readonly status: number }

export interface Universe {
  readonly imports: Imports
  apply(application: Application): Promise<ApplicationOutcome>
  /** Rejects with a ServiceUnavailableError. */
  currentRows(caller: ImportCaller, body: CurrentRowsBody): Promise<CurrentRowsAnswer>
  /** Undefined without a person or an address. Rejects with a ServiceUnavailableError. */
  findPersonEmail(caller: ImportCaller, id: string): Promise<string | undefined>
  /** Records whether the connector is retired. Idempotent. Rejects with a ServiceUnavailableError. */
  retireSource(caller: ImportCaller, body: RetireSourceBody): Promise<void>
  close(): Promise<void>
}

/** More than the errors of a push. */
const maxAnswerBytes = 16 * 1024 * 1024

/** A step of an import may take this many times as long as a push. */
const importTimeoutFactor = 3

/** A push is sent once; other requests are repeated if the connection is lost. */
export function openUniverse({ url, ring, timeoutMs }: ServiceAddress): Universe {
  const options = { service: 'The universe service', baseUrl: url, keyName: 'sync-universe', ring }
  const { send, ask, close } = createServiceClient({ ...options, timeoutMs, maxAnswerBytes })
  const importing = createServiceClient({ ...options, timeoutMs: importTimeoutFactor * timeoutMs })
  return {
    imports: openImports(importing),
    apply: async ({ dataset, body, ...caller }) => {
      const { path, list } = destinations[dataset]
      try {
        const { status, json } = await send({
          ...callerOf(caller),
          target: path,
          body: { run_id: caller.runId, ...body },
        })
        return outcomeOf(status, json, list)
      } catch (error) {
        if (!(error instanceof NoAnswerError)) throw error
        if (error.isUnsent) return { kind: 'unreachable', cause: error }
        return { kind: 'unknown', timedOut: error.isTimeout, cause: error }
      }
    },
    currentRows: async (caller, body) => {
      const request = { ...callerOf(caller), target: internalPaths.currentRows, body }
      return await ask(currentRowsAnswerSchema, request)
    },
    findPersonEmail: async (caller, id) => {
      const request = { ...callerOf(caller), target: internalPaths.identifyPeople, body: { texts: [id] } }
      const { people } = await ask(identifyPeopleAnswerSchema, request)
      return people?.find((person) => person.person_id === id)?.email ?? undefined
    },
    retireSource: async (caller, body) => {
      await ask(z.unknown(), { ...callerOf(caller), target: internalPaths.retireSource, body })
    },
    close: async () => {
      await Promise.all([close(), importing.close()])
    },
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

/** If the caller sent only an array, `/entities/3/name` becomes the caller's `/3/name`. */
function toCallersErrors(errors: readonly InputError[], list: string | undefined): InputError[] {
  if (list === undefined) return [...errors]
  return errors.map(({ pointer = '', ...rest }) => {
    const isInList = pointer.startsWith(`/${list}/`)
    return { ...rest, pointer: isInList ? pointer.slice(list.length + 1) : '' }
  })
}
