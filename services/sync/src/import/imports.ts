import { createInterface } from 'node:readline'
import type { Connector } from '@postern/contracts'
import {
  type ApplyImportAnswer,
  type ImportChange,
  type ImportChanges,
  type ImportErrors,
  type ImportRow,
  type MissingSourceRow,
  type PlanImportAnswer,
  type RollbackPlan,
  applyImportAnswerSchema,
  beginImportAnswerSchema,
  checkImportAnswerSchema,
  clearImportsAnswerSchema,
  importChangeSchema,
  importChangesAnswerSchema,
  importErrorsAnswerSchema,
  importHashesAnswerSchema,
  internalPaths,
  missingRowsAnswerSchema,
  missingSourceRowSchema,
  planImportAnswerSchema,
  rollbackPlanSchema,
  stopImportAnswerSchema,
  undoableAnswerSchema,
} from '@postern/contracts/internal'
import { NoAnswerError, type ServiceClient, ServiceUnavailableError } from '@postern/service-client'
import { z } from 'zod'
import { type ImportCaller, callerOf } from '../push/import-caller.ts'

/** Another attempt has the run, or its planned changes differ. */
export class ImportConflictError extends Error {
  override readonly name = 'ImportConflictError'
}

/** One worker's attempt at a run. */
export interface Attempt {
  readonly caller: ImportCaller
  readonly attempt: number
}

type Destination = Pick<Connector, 'dataset' | 'hierarchy'>

/**
 * Imports of the universe. All requests can be repeated and reject with a ServiceUnavailableError; those of an attempt also with
 * an ImportConflictError.
 */
export interface Imports {
  /** Returns how many rows the connector has delivered before. */
  begin(attempt: Attempt, destination: Destination, readAt: Date): Promise<number>
  /** Returns a page of hashes of rows that are stored as delivered, and the last key of the page. */
  hashes(attempt: Attempt, after: string): Promise<{ readonly hashes: Buffer; readonly last: string | null }>
  stage(attempt: Attempt, rows: readonly ImportRow[], gone?: Buffer): Promise<void>
  plan(
    attempt: Attempt,
    body: {
      readonly after: number
      readonly hashes: number | null
      readonly missing_policy: Connector['missing_policy']
      readonly authoritative?: true
    },
  ): Promise<PlanImportAnswer>
  planRollback(
    attempt: Attempt,
    destination: Destination,
    body: { readonly readAt: Date; readonly rollbackOf: string; readonly below: number | undefined },
  ): Promise<RollbackPlan>
  apply(
    attempt: Attempt,
    diffHash: string,
    connector: Pick<Connector, 'hierarchy' | 'authoritative'>,
  ): Promise<ApplyImportAnswer>
  stop(attempt: Attempt): Promise<number>
  errors(
    caller: ImportCaller,
    after: number,
    applying: boolean,
  ): Promise<{ errors: ImportErrors; after: number | null }>
  /** Returns whether changes after `after` are outdated. `after` of the result is null if all changes were checked. */
  check(caller: ImportCaller, after: number): Promise<{ readonly stale: boolean; readonly after: number | null }>
  undoable(
    caller: ImportCaller,
    dataset: Connector['dataset'],
  ): Promise<{ readonly changed: boolean; readonly left: boolean }>
  changes(
    caller: ImportCaller,
    body: {
      readonly after: number
      readonly limit: number
      readonly ops: readonly string[] | null
      readonly count: boolean
    },
  ): Promise<ImportChanges>
  missing(
    caller: ImportCaller,
    destination: Destination,
    body: { readonly after: string; readonly limit: number; readonly count: boolean },
  ): Promise<z.infer<typeof missingRowsAnswerSchema>>
  /** Streams all changes after `after`, without a time limit. */
  exportChanges(
    caller: ImportCaller,
    body: { readonly after: number; readonly ops: readonly string[] | null },
  ): AsyncIterable<ImportChange>
  exportMissing(caller: ImportCaller, destination: Destination, after: string): AsyncIterable<MissingSourceRow>
  /** Deletes rows of ended runs, with `changes` also their changes. Returns whether there may be more. */
  clear(caller: ImportCaller, runIds: readonly string[], changes: boolean): Promise<boolean>
}

export function openImports(client: Pick<ServiceClient, 'send' | 'stream'>): Imports {
  const ask = async <Schema extends z.ZodType>(
    schema: Schema,
    caller: ImportCaller,
    target: string,
    body: object,
  ): Promise<z.output<Schema>> => {
    const answer = await client
      .send({ ...callerOf(caller), target, body, isRepeatable: true })
      .catch((error: unknown) => (error instanceof NoAnswerError ? fail(error) : Promise.reject(error)))
    if (answer.status === 409) throw new ImportConflictError(`the universe rejected ${target}`)
    if (answer.status !== 200) return fail(new Error(`the answer to ${target} has status ${answer.status}`))
    return schema.safeParse(answer.json).data ?? fail(new Error(`the answer to ${target} is invalid`))
  }
  async function* parseLines<Schema extends z.ZodType>(
    schema: Schema,
    caller: ImportCaller,
    body: object,
  ): AsyncGenerator<z.output<Schema>> {
    const input = await client.stream({ ...callerOf(caller), target: internalPaths.exportImport, body })
    const reader = createInterface({ input })
    // The iteration throws the error; this ignores the one from destroying the rest.
    reader.on('error', () => undefined)
    try {
      for await (const line of reader) yield schema.parse(JSON.parse(line))
    } finally {
      input.destroy()
    }
  }
  return {
    begin: async (attempt, destination, readAt) => {
      const body = { ...attemptFields(attempt), ...destinationFields(destination), read_at: readAt.toISOString() }
      return (await ask(beginImportAnswerSchema, attempt.caller, internalPaths.beginImport, body)).known
    },
    hashes: async (attempt, after) => {
      const body = { ...attemptFields(attempt), after }
      const { hashes, last } = await ask(importHashesAnswerSchema, attempt.caller, internalPaths.importHashes, body)
      return { hashes: Buffer.from(hashes, 'base64'), last }
    },
    stage: async (attempt, rows, gone) => {
      const body = { ...attemptFields(attempt), rows, ...(gone === undefined ? {} : { gone: gone.toString('base64') }) }
      await ask(z.unknown(), attempt.caller, internalPaths.importRows, body)
    },
    plan: async (attempt, body) =>
      await ask(planImportAnswerSchema, attempt.caller, internalPaths.planImport, {
        ...attemptFields(attempt),
        ...body,
      }),
    planRollback: async (attempt, destination, { readAt, rollbackOf, below }) =>
      await ask(rollbackPlanSchema, attempt.caller, internalPaths.planRollback, {
        ...attemptFields(attempt),
        ...destinationFields(destination),
        read_at: readAt.toISOString(),
        rollback_of: rollbackOf,
        ...(below === undefined ? {} : { below }),
      }),
    apply: async (attempt, diffHash, { hierarchy, authoritative }) =>
      await ask(applyImportAnswerSchema, attempt.caller, internalPaths.applyImport, {
        ...attemptFields(attempt),
        diff_hash: diffHash,
        ...(hierarchy === null ? {} : { hierarchy }),
        ...(authoritative === true ? { authoritative } : {}),
      }),
    stop: async (attempt) =>
      (await ask(stopImportAnswerSchema, attempt.caller, internalPaths.stopImport, attemptFields(attempt))).applied,
    errors: async (caller, after, applying) =>
      await ask(importErrorsAnswerSchema, caller, internalPaths.importErrors, {
        run_id: caller.runId,
        after,
        applying,
      }),
    check: async (caller, after) =>
      await ask(checkImportAnswerSchema, caller, internalPaths.checkImport, { run_id: caller.runId, after }),
    undoable: async (caller, dataset) =>
      await ask(undoableAnswerSchema, caller, internalPaths.undoable, { run_id: caller.runId, dataset }),
    changes: async (caller, body) =>
      await ask(importChangesAnswerSchema, caller, internalPaths.importChanges, { run_id: caller.runId, ...body }),
    missing: async (caller, destination, body) =>
      await ask(missingRowsAnswerSchema, caller, internalPaths.missingRows, {
        ...destinationFields(destination),
        ...body,
      }),
    exportChanges: (caller, body) => parseLines(importChangeSchema, caller, { run_id: caller.runId, ...body }),
    exportMissing: (caller, destination, after) =>
      parseLines(missingSourceRowSchema, caller, { ...destinationFields(destination), after }),
    clear: async (caller, runIds, changes) =>
      (await ask(clearImportsAnswerSchema, caller, internalPaths.clearImports, { run_ids: runIds, changes })).more,
  }
}

function fail(cause: unknown): never {
  throw new ServiceUnavailableError('The universe service', cause)
}

function attemptFields({ caller, attempt }: Attempt): object {
  return { run_id: caller.runId, attempt }
}

function destinationFields({ dataset, hierarchy }: Destination): object {
  return { dataset, ...(hierarchy === null ? {} : { hierarchy: hierarchy.key }) }
}
