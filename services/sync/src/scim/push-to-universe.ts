import type { PushedNode, PushedPerson } from '@postern/contracts'
import { type RequestInfo, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { problemOf } from '../push/refusal.ts'
import { runOutcomeOf } from '../push/rules.ts'
import type { ApplicationOutcome } from '../push/universe.ts'
import { finishRun } from '../run/store.ts'
import { scimHierarchy } from './unit.ts'

export type Parts = Pick<Deps, 'db' | 'universe' | 'countEndedUser'>
export type Request = Pick<RequestInfo, 'context' | 'requestId' | 'raw' | 'log'>

export function uniquenessProblem(pointer: string, detail: string) {
  return problem('conflict', { detail: 'Nothing was changed.', errors: [{ pointer, code: 'uniqueness', detail }] })
}

/** Calls `onPushed` if the universe applied the push, or may have. Throws a problem if it did not. */
export async function pushToUniverse(
  { db, universe }: Parts,
  { context, requestId }: Pick<Request, 'context' | 'requestId'>,
  { people, nodes }: { readonly people: readonly PushedPerson[]; readonly nodes: readonly PushedNode[] },
  runId: string,
  onPushed: () => unknown,
): Promise<void> {
  const { tenantId, assertion, label } = context
  const caller = { tenantId, assertion, runId, label, requestId }
  const outcome = await universe.apply(
    nodes.length === 0
      ? { ...caller, dataset: 'people', body: { people } }
      : {
          ...caller,
          dataset: 'org_structure',
          body: { ...scimHierarchy, mode: 'partial', nodes, ...(people.length === 0 ? {} : { people }) },
        },
  )
  if (mayBeApplied(outcome)) onPushed()
  await db.write(context, async (tx) => await finishRun(tx, runId, runOutcomeOf(outcome, people.length + nodes.length)))
  if (outcome.kind === 'applied') return
  const isAddress = outcome.kind === 'refused' && outcome.errors.some(({ code, pointer }) => isTaken(code, pointer))
  if (isAddress) throw uniquenessProblem('/emails', 'holds the address of another person')
  throw problemOf(outcome)
}

function mayBeApplied({ kind }: ApplicationOutcome): boolean {
  return kind === 'applied' || kind === 'unknown' || kind === 'unavailable' || kind === 'unexpected'
}

function isTaken(code: string, pointer: string | undefined): boolean {
  return code === 'duplicate' && pointer?.endsWith('/email') === true
}
