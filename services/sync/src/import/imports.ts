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
import { type Asker, callerOf } from '../push/asker.ts'

/** Another attempt has the run, or its planned changes differ. */
export class ImportConflictError extends Error {
  override readonly name = 'ImportConflictError'
}

/** One worker's attempt at a run. */
export interface Attempt {
  readonly asker: Asker
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
  errors(asker: Asker, after: number, applying: boolean): Promise<{ errors: ImportErrors; after: number | null }>
  /** Whether any changes after `after` are outdated. `after` of the result is null after the last change. */
  check(asker: Asker, after: number): Promise<{ readonly stale: boolean; readonly after: number | null }>
  undoable(asker: Asker, dataset: Connector['dataset']): Promise<{ readonly changed: boolean; readonly left: boolean }>
  changes(
    asker: Asker,
    body: {
      readonly after: number
      readonly limit: number
      readonly ops: readonly string[] | null
      readonly count: boolean
    },
  ): Promise<ImportChanges>
  missing(
    asker: Asker,
    destination: Destination,
    body: { readonly after: string; readonly limit: number; readonly count: boolean },
  ): Promise<z.infer<typeof missingRowsAnswerSchema>>
  /** Streams all changes after `after`, without a time limit. */
  exportChanges(
    asker: Asker,
    body: { readonly after: number; readonly ops: readonly string[] | null },
  ): AsyncIterable<ImportChange>
  exportMissing(asker: Asker, destination: Destination, after: string): AsyncIterable<MissingSourceRow>
  /** Deletes rows of ended runs, with `changes` also their changes. Returns whether there may be more. */
  clear(asker: Asker, runIds: readonly string[], changes: boolean): Promise<boolean>
}

export function openImports(client: Pick<ServiceClient, 'send' | 'stream'>): Imports {
  const ask = async <Schema extends z.ZodType>(
    schema: Schema,
    asker: Asker,
    target: string,
    body: object,
  ): Promise<z.output<Schema>> => {
    const answer = await client
      .send({ ...callerOf(asker), target, body, isRepeatable: true })
      .catch((error: unknown) => (error instanceof NoAnswerError ? fail(error) : Promise.reject(error)))
    if (answer.status === 409) throw new ImportConflictError(`the universe rejected ${target}`)
    if (answer.status !== 200) return fail(new Error(`the answer to ${target} has status ${answer.status}`))
    return schema.safeParse(answer.json).data ?? fail(new Error(`the answer to ${target} is invalid`))
  }
  async function* lines<Schema extends z.ZodType>(
    schema: Schema,
    asker: Asker,
    body: object,
  ): AsyncGenerator<z.output<Schema>> {
    const input = await client.stream({ ...callerOf(asker), target: internalPaths.exportImport, body })
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
      const body = { ...attemptFields(attempt), ...scopeOf(destination), read_at: readAt.toISOString() }
      return (await ask(beginImportAnswerSchema, attempt.asker, internalPaths.beginImport, body)).known
    },
    hashes: async (attempt, after) => {
      const body = { ...attemptFields(attempt), after }
      const { hashes, last } = await ask(importHashesAnswerSchema, attempt.asker, internalPaths.importHashes, body)
      return { hashes: Buffer.from(hashes, 'base64'), last }
    },
    stage: async (attempt, rows, gone) => {
      const body = { ...attemptFields(attempt), rows, ...(gone === undefined ? {} : { gone: gone.toString('base64') }) }
      await ask(z.unknown(), attempt.asker, internalPaths.importRows, body)
    },
    plan: async (attempt, body) =>
      await ask(planImportAnswerSchema, attempt.asker, internalPaths.planImport, {
        ...attemptFields(attempt),
        ...body,
      }),
    planRollback: async (attempt, destination, { readAt, rollbackOf, below }) =>
      await ask(rollbackPlanSchema, attempt.asker, internalPaths.planRollback, {
        ...attemptFields(attempt),
        ...scopeOf(destination),
        read_at: readAt.toISOString(),
        rollback_of: rollbackOf,
        ...(below === undefined ? {} : { below }),
      }),
    apply: async (attempt, diffHash, { hierarchy, authoritative }) =>
      await ask(applyImportAnswerSchema, attempt.asker, internalPaths.applyImport, {
        ...attemptFields(attempt),
        diff_hash: diffHash,
        ...(hierarchy === null ? {} : { hierarchy }),
        ...(authoritative === true ? { authoritative } : {}),
      }),
    stop: async (attempt) =>
      (await ask(stopImportAnswerSchema, attempt.asker, internalPaths.stopImport, attemptFields(attempt))).applied,
    errors: async (asker, after, applying) =>
      await ask(importErrorsAnswerSchema, asker, internalPaths.importErrors, { run_id: asker.runId, after, applying }),
    check: async (asker, after) =>
      await ask(checkImportAnswerSchema, asker, internalPaths.checkImport, { run_id: asker.runId, after }),
    undoable: async (asker, dataset) =>
      await ask(undoableAnswerSchema, asker, internalPaths.undoable, { run_id: asker.runId, dataset }),
    changes: async (asker, body) =>
      await ask(importChangesAnswerSchema, asker, internalPaths.importChanges, { run_id: asker.runId, ...body }),
    missing: async (asker, destination, body) =>
      await ask(missingRowsAnswerSchema, asker, internalPaths.missingRows, { ...scopeOf(destination), ...body }),
    exportChanges: (asker, body) => lines(importChangeSchema, asker, { run_id: asker.runId, ...body }),
    exportMissing: (asker, destination, after) =>
      lines(missingSourceRowSchema, asker, { ...scopeOf(destination), after }),
    clear: async (asker, runIds, changes) =>
      (await ask(clearImportsAnswerSchema, asker, internalPaths.clearImports, { run_ids: runIds, changes })).more,
  }
}

function fail(cause: unknown): never {
  throw new ServiceUnavailableError('The universe service', cause)
}

function attemptFields({ asker, attempt }: Attempt): object {
  return { run_id: asker.runId, attempt }
}

function scopeOf({ dataset, hierarchy }: Destination): object {
  return { dataset, ...(hierarchy === null ? {} : { hierarchy: hierarchy.key }) }
}
