import { createInterface } from 'node:readline'
import type { Connector } from '@postern/contracts'
import {
  type ApplyImportAnswer,
  type ImportChange,
  type ImportChanges,
  type ImportChangesBody,
  type ImportRow,
  type MissingRowsBody,
  type MissingSourceRow,
  type PlanImportAnswer,
  type PlanImportBody,
  type PlanRollbackBody,
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
type AttemptField = 'run_id' | 'attempt'

export type Imports = ReturnType<typeof openImports>

/**
 * Imports of the universe. All requests can be repeated and reject with a ServiceUnavailableError; those of an attempt also with
 * an ImportConflictError.
 */
export function openImports(client: Pick<ServiceClient, 'send' | 'stream'>) {
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
    /** Returns how many rows the connector has delivered before. */
    begin: async (attempt: Attempt, destination: Destination, readAt: Date): Promise<number> => {
      const body = { ...attemptFields(attempt), ...destinationFields(destination), read_at: readAt.toISOString() }
      return (await ask(beginImportAnswerSchema, attempt.caller, internalPaths.beginImport, body)).known
    },
    /** Returns a page of hashes of rows that are stored as delivered, and the last key of the page. */
    hashes: async (
      attempt: Attempt,
      after: string,
    ): Promise<{ readonly hashes: Buffer; readonly last: string | null }> => {
      const body = { ...attemptFields(attempt), after }
      const { hashes, last } = await ask(importHashesAnswerSchema, attempt.caller, internalPaths.importHashes, body)
      return { hashes: Buffer.from(hashes, 'base64'), last }
    },
    stage: async (attempt: Attempt, rows: readonly ImportRow[], gone?: Buffer): Promise<void> => {
      const body = { ...attemptFields(attempt), rows, ...(gone === undefined ? {} : { gone: gone.toString('base64') }) }
      await ask(z.unknown(), attempt.caller, internalPaths.importRows, body)
    },
    plan: async (attempt: Attempt, plan: Omit<PlanImportBody, AttemptField>): Promise<PlanImportAnswer> => {
      const body = { ...attemptFields(attempt), ...plan }
      return await ask(planImportAnswerSchema, attempt.caller, internalPaths.planImport, body)
    },
    planRollback: async (
      attempt: Attempt,
      destination: Destination,
      rollback: Pick<PlanRollbackBody, 'read_at' | 'rollback_of' | 'below'>,
    ): Promise<RollbackPlan> => {
      const body = { ...attemptFields(attempt), ...destinationFields(destination), ...rollback }
      return await ask(rollbackPlanSchema, attempt.caller, internalPaths.planRollback, body)
    },
    apply: async (
      attempt: Attempt,
      diffHash: string,
      { hierarchy, authoritative }: Pick<Connector, 'hierarchy' | 'authoritative'>,
    ): Promise<ApplyImportAnswer> =>
      await ask(applyImportAnswerSchema, attempt.caller, internalPaths.applyImport, {
        ...attemptFields(attempt),
        diff_hash: diffHash,
        ...(hierarchy === null ? {} : { hierarchy }),
        ...(authoritative === true ? { authoritative } : {}),
      }),
    /** Returns the number of applied changes. */
    stop: async (attempt: Attempt): Promise<number> =>
      (await ask(stopImportAnswerSchema, attempt.caller, internalPaths.stopImport, attemptFields(attempt))).applied,
    errors: async (caller: ImportCaller, after: number, applying: boolean) => {
      const body = { run_id: caller.runId, after, applying }
      return await ask(importErrorsAnswerSchema, caller, internalPaths.importErrors, body)
    },
    /** Returns whether changes after `after` are outdated. `after` of the result is null if all changes were checked. */
    check: async (caller: ImportCaller, after: number) =>
      await ask(checkImportAnswerSchema, caller, internalPaths.checkImport, { run_id: caller.runId, after }),
    undoable: async (caller: ImportCaller, dataset: Connector['dataset']) =>
      await ask(undoableAnswerSchema, caller, internalPaths.undoable, { run_id: caller.runId, dataset }),
    changes: async (caller: ImportCaller, page: Omit<ImportChangesBody, 'run_id'>): Promise<ImportChanges> =>
      await ask(importChangesAnswerSchema, caller, internalPaths.importChanges, { run_id: caller.runId, ...page }),
    missing: async (caller: ImportCaller, destination: Destination, page: Omit<MissingRowsBody, keyof Destination>) =>
      await ask(missingRowsAnswerSchema, caller, internalPaths.missingRows, {
        ...destinationFields(destination),
        ...page,
      }),
    /** Streams all changes after `after`, without a time limit. */
    exportChanges: (
      caller: ImportCaller,
      from: Pick<ImportChangesBody, 'after' | 'ops'>,
    ): AsyncIterable<ImportChange> => parseLines(importChangeSchema, caller, { run_id: caller.runId, ...from }),
    exportMissing: (caller: ImportCaller, destination: Destination, after: string): AsyncIterable<MissingSourceRow> =>
      parseLines(missingSourceRowSchema, caller, { ...destinationFields(destination), after }),
    /** Deletes rows of ended runs, with `changes` also their changes. Returns whether there may be more. */
    clear: async (caller: ImportCaller, runIds: readonly string[], changes: boolean): Promise<boolean> =>
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
