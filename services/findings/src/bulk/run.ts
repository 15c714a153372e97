import {
  type BulkMode,
  type BulkResult,
  type ProblemCode,
  type ResourceAddress,
  maxBulkItems,
  problemDocument,
  problemTypes,
} from '@postern/contracts'
import { ProblemError, type RequestInfo, problem } from '@postern/service-kit'
import type { TenantDb, Tx } from '@postern/tenant-db'
import { mergePatch } from '../merge-patch.ts'
import { entityTag } from '../request.ts'
import { NoFreeNumberError } from '../reference/store.ts'
import type { Recorder } from '../tracker-log/record.ts'
import type { LogDraft } from '../tracker-log/rules.ts'
import type { BulkItem } from './parse-items.ts'
import { runWithSavepoint, lockAll } from './store.ts'
import type { BulkWarnings } from './usable-owner.ts'

export interface AppliedItem {
  readonly isNew: boolean
  readonly resource: { readonly id: string; readonly reference: string; readonly version: number }
  readonly drafts: readonly LogDraft[]
}

export interface BulkKind<Item> {
  addressesOf(items: readonly Item[]): {
    readonly findings: readonly ResourceAddress[]
    readonly plans: readonly ResourceAddress[]
  }
  /** Errors go through `problemOf`. A problem below 500 rejects only this item. */
  apply(tx: Tx, item: Item): Promise<AppliedItem>
  problemOf(error: unknown): unknown
  /** Whether a retry would find the resource, because another request created it. */
  isConcurrentCreate(error: unknown): boolean
}

export interface BulkRequest<Item> {
  readonly mode: BulkMode
  readonly items: readonly BulkItem<Item>[]
  readonly warnings: ReadonlyMap<number, BulkWarnings>
}

/** One transaction with a savepoint for each item. In mode `atomic`, one rejected item rolls back all. */
export async function runBulk<Item>(
  {
    context,
    requestId,
    body,
    keep,
  }: Pick<RequestInfo, 'context' | 'requestId'> & {
    readonly body: BulkRequest<Item>
    keep(tx: Tx, results: BulkResult[]): Promise<BulkResult[]>
  },
  { db, record, today }: { readonly db: TenantDb; readonly record: Recorder; readonly today: string },
  { addressesOf, apply, problemOf, isConcurrentCreate }: BulkKind<Item>,
): Promise<BulkResult[]> {
  const { mode, items, warnings } = body
  if (items.length > maxBulkItems) {
    throw problem('content_too_large', { detail: `Send at most ${maxBulkItems} items in one request.` })
  }
  const refusal = (index: number, error: ProblemError): BulkResult => ({
    index,
    status: problemTypes[error.code].status,
    problem: documentOf(index, error, requestId),
  })
  return await db
    .write(context, async (tx) => {
      await lockAll(tx, addressesOf(items.flatMap((parsed) => (parsed.ok ? [parsed.item] : []))))
      const results: BulkResult[] = []
      const drafts: LogDraft[] = []
      for (const [index, parsed] of items.entries()) {
        if (!parsed.ok) {
          results.push(refusal(index, parsed.problem))
          continue
        }
        try {
          const tried = async () => await runWithSavepoint(tx, async () => await apply(tx, parsed.item))
          const applied = await tried().catch(async (error: unknown) => {
            if (!isConcurrentCreate(error)) throw error
            return await tried()
          })
          drafts.push(...applied.drafts)
          const own = warnings.get(index)
          results.push({ ...resultOf(index, applied, today), ...(own === undefined ? {} : { warnings: own }) })
        } catch (error) {
          if (error instanceof NoFreeNumberError) throw new NoFreeNumberError(error.series, items.length)
          const known = problemOf(error)
          if (!(known instanceof ProblemError) || problemTypes[known.code].status >= 500) throw known
          results.push(refusal(index, known))
        }
      }
      if (mode === 'atomic' && results.some((result) => result.problem !== undefined))
        throw new NothingAppliedError(results)
      await record(tx, drafts)
      return await keep(tx, results)
    })
    .catch((error: unknown) => {
      if (!(error instanceof NothingAppliedError)) throw error
      return error.results.map((result) => (result.problem === undefined ? refusal(result.index, notApplied) : result))
    })
}

const notApplied = problem('not_applied', {
  detail:
    'Another item was rejected, so nothing was stored. Correct it and send all again, or use `mode` `best_effort`.',
})

class NothingAppliedError extends Error {
  readonly results: readonly BulkResult[]

  constructor(results: readonly BulkResult[]) {
    super('an item of an atomic request was refused')
    this.results = results
  }
}

function resultOf(index: number, { isNew, resource }: AppliedItem, today: string): BulkResult {
  const { id, reference, version } = resource
  return { index, status: isNew ? 201 : 200, id, reference, version, etag: entityTag(version, today) }
}

function documentOf(
  index: number,
  { code, options }: { code: ProblemCode; options: ProblemError['options'] },
  id: string,
) {
  const { errors, ...rest } = options
  const within = errors?.map(({ pointer, ...error }) => ({ ...error, pointer: `/items/${index}${pointer ?? ''}` }))
  return problemDocument(code, id, { ...rest, ...(within === undefined ? {} : { errors: within }) })
}

export function assertItemVersion(version: number | undefined, present: number | undefined): void {
  if (version !== undefined && version !== present) {
    throw problem('precondition_failed', {
      detail: 'The resource was changed. Read it again and resend your change with the new version.',
    })
  }
}

export function requireItemVersion(item: {
  readonly id?: string | undefined
  readonly version?: number | undefined
}): void {
  if (item.id !== undefined && item.version === undefined) {
    throw problem('precondition_required', {
      detail: 'Send the `version` that you read.',
      errors: [{ pointer: '/version', code: 'required', detail: 'is required with `id`' }],
    })
  }
}

/** Null means removal in a merge patch. */
export function withoutNulls(item: object): unknown {
  return mergePatch({}, item)
}
