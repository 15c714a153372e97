import { setTimeout as pause } from 'node:timers/promises'
import type { InputError, ProblemCode } from '@postern/contracts'
import { maxTestProceduresAtOnce } from '@postern/contracts/internal'
import { ServiceUnavailableError } from '@postern/service-client'
import { type ProblemError, type RequestInfo, problem } from '@postern/service-kit'
import { type Judgement, judgeTestProcedures, selectOpenProcedures } from './rules.ts'
import type { FoundTestProcedures, Universe } from './universe.ts'

type Requester = Pick<RequestInfo, 'context' | 'requestId'>

export type LocateInput = (index: number) => Pick<InputError, 'pointer' | 'parameter'>

/**
 * Returns the distinct ids. Throws a problem if one is missing or completed, or if the universe is unavailable for
 * longer than `waitMs`.
 */
export async function requireTestProcedures(
  universe: Universe,
  request: Requester,
  addresses: readonly string[],
  locateInput: LocateInput,
  waitMs = 0,
): Promise<readonly string[]> {
  if (addresses.length === 0) return []
  const judgement = judgeTestProcedures(await ask(universe, request, addresses, waitMs))
  if (judgement.kind === 'open') return judgement.ids
  const { code, fault, detail } = refusals[judgement.kind]
  throw problem(code, {
    detail,
    errors: judgement.indexes.map((index) => ({ ...locateInput(index), code: fault, detail: `${addresses[index]}` })),
  })
}

/** Throws a problem if one is completed. Deleted ones are ignored. */
export async function requireUnlocked(
  universe: Universe,
  request: Requester,
  ids: readonly string[],
  waitMs = 0,
): Promise<void> {
  for (let at = 0; at < ids.length; at += maxTestProceduresAtOnce) {
    const found = await ask(universe, request, ids.slice(at, at + maxTestProceduresAtOnce), waitMs)
    if (found.some((procedure) => procedure?.status === 'completed')) {
      throw problem('procedure_locked', {
        detail:
          'The evidence belongs to a completed test procedure, or replaces evidence of one. Evidence that was signed off cannot change.',
      })
    }
  }
}

export async function testProcedureIds(
  universe: Universe,
  request: Requester,
  addresses: readonly string[],
): Promise<readonly string[]> {
  const ids = addresses.filter((address) => !address.includes(':'))
  const named = addresses.filter((address) => address.includes(':'))
  for (let at = 0; at < named.length; at += maxTestProceduresAtOnce) {
    const found = await ask(universe, request, named.slice(at, at + maxTestProceduresAtOnce))
    ids.push(...found.flatMap((procedure) => procedure?.id ?? []))
  }
  return ids
}

/** Returns the test procedures that are still open after a long upload. */
export async function openTestProcedures(
  universe: Universe,
  request: Requester,
  addresses: readonly string[],
): Promise<ReturnType<typeof selectOpenProcedures>> {
  return selectOpenProcedures(addresses, addresses.length === 0 ? [] : await ask(universe, request, addresses))
}

const refusals: Readonly<
  Record<
    Exclude<Judgement['kind'], 'open'>,
    { readonly code: ProblemCode; readonly fault: string; readonly detail: string }
  >
> = {
  unknown: {
    code: 'not_found',
    fault: 'unknown',
    detail: 'The test procedure in `errors` does not exist. The evidence was not stored.',
  },
  locked: {
    code: 'procedure_locked',
    fault: 'completed',
    detail: 'The test procedure in `errors` is completed and accepts no further evidence. The evidence was not stored.',
  },
}

const pauseMs = 250

async function ask(
  universe: Universe,
  request: Requester,
  addresses: readonly string[],
  waitMs = 0,
): Promise<FoundTestProcedures> {
  const until = performance.now() + waitMs
  for (;;) {
    try {
      return await universe.lookUp(request, addresses)
    } catch (error) {
      if (!(error instanceof ServiceUnavailableError)) throw error
      if (performance.now() + pauseMs > until) throw uncheckedProblem(error)
      await pause(pauseMs)
    }
  }
}

function uncheckedProblem(cause: ServiceUnavailableError): ProblemError {
  return problem('service_unavailable', {
    detail: 'The test procedures cannot be checked at the moment. Try again in a moment.',
    retryAfterSeconds: 5,
    cause,
  })
}
