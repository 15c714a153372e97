import type { PushedNode, PushedPerson } from '@postern/contracts'
import { type ProblemError, type RequestInfo, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { importCallerOf } from '../push/import-caller.ts'
import { problemOf } from '../push/refusal.ts'
import { canBeApplied, runOutcomeOf } from '../push/rules.ts'
import type { ApplicationOutcome } from '../push/universe.ts'
import type { Actor } from '../run/rules.ts'
import { finishRun } from '../push/run-store.ts'
import { deletePendingPushes } from './pending-store.ts'
import { scimHierarchy } from './unit.ts'

export type Parts = Pick<Deps, 'db' | 'universe'>

/** A request, or a worker on behalf of its tenant. */
export interface Sender {
  readonly context: Pick<RequestInfo['context'], 'tenantId' | 'assertion' | 'label'>
  readonly requestId: string
  readonly actor: Actor
}

export function uniquenessProblem(pointer: string, detail: string) {
  return problem('conflict', { detail: 'Nothing was changed.', errors: [{ pointer, code: 'uniqueness', detail }] })
}

/** Pushes rows and ends the run. Deletes the pending push unless the universe may have applied it. */
export async function pushToUniverse(
  { db, universe }: Parts,
  { context, requestId }: Pick<Sender, 'context' | 'requestId'>,
  { people, nodes }: { readonly people: readonly PushedPerson[]; readonly nodes: readonly PushedNode[] },
  { runId, pendingId }: { readonly runId: string; readonly pendingId?: string },
): Promise<{ readonly mayBeApplied: boolean; readonly failure: ProblemError | undefined }> {
  const caller = importCallerOf({ context, requestId }, runId)
  const outcome = await universe.apply(
    nodes.length === 0
      ? { ...caller, dataset: 'people', body: { people } }
      : {
          ...caller,
          dataset: 'org_structure',
          body: { ...scimHierarchy, mode: 'partial', nodes, ...(people.length === 0 ? {} : { people }) },
        },
  )
  const mayBeApplied = canBeApplied(outcome)
  await db.write(context, async (tx) => {
    await finishRun(tx, runId, runOutcomeOf(outcome, people.length + nodes.length))
    if (!mayBeApplied && pendingId !== undefined) await deletePendingPushes(tx, [pendingId])
  })
  return { mayBeApplied, failure: outcome.kind === 'applied' ? undefined : failureOf(outcome) }
}

function failureOf(outcome: Exclude<ApplicationOutcome, { readonly kind: 'applied' }>): ProblemError {
  const isAddress = outcome.kind === 'refused' && outcome.errors.some(({ code, pointer }) => isTaken(code, pointer))
  return isAddress ? uniquenessProblem('/emails', 'contains the address of another person') : problemOf(outcome)
}

function isTaken(code: string, pointer: string | undefined): boolean {
  return code === 'duplicate' && pointer?.endsWith('/email') === true
}
