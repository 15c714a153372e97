import type { InputError, Transitions } from '@postern/contracts'
import { problem } from '@postern/service-kit'

/** Something that a move of a status needs. */
export interface Need<Situation> {
  readonly code: string
  readonly detail: string
  /** The member of the request that gives it; undefined where the record itself must have it. */
  readonly member?: string
  isMet(situation: Situation): boolean
}

/** From each status, where it can go and what that needs. A status without moves is an end. */
export type StateMachine<Status extends string, Situation> = Readonly<
  Record<Status, Readonly<Partial<Record<Status, readonly Need<Situation>[]>>>>
>

/**
 * Refuses a move that the machine does not have, or whose needs are not met, be it that the record is not ready for it or
 * that the request does not bring what it needs: 409 with the moves that are allowed, and all that this one still lacks.
 */
export function assertMove<Status extends string, Situation>(
  machine: StateMachine<Status, Situation>,
  from: Status,
  to: Status,
  situation: Situation,
): void {
  const needs = machine[from][to]
  const allowed = Object.keys(machine[from])
  if (needs === undefined) {
    const detail =
      allowed.length === 0 ? `What is ${from} stays so.` : `From ${from} it can become ${allowed.join(', ')}.`
    throw problem('invalid_transition', { detail, allowed })
  }
  const unmet = needs.filter((need) => !need.isMet(situation))
  if (unmet.length === 0) return
  const errors = unmet.map(errorOf)
  throw problem('invalid_transition', { detail: `To become ${to} it needs what \`errors\` lists.`, allowed, errors })
}

/** Where a status can go, with what each move needs of the request and what the record still lacks. */
export function describeMoves<Status extends string, Situation>(
  machine: StateMachine<Status, Situation>,
  status: Status,
  situation: Situation,
): Transitions {
  const moves: Readonly<Record<string, readonly Need<Situation>[] | undefined>> = machine[status]
  return {
    status,
    transitions: Object.entries(moves).map(([to, needs = []]) => {
      const unmet = needs.filter((need) => !need.isMet(situation))
      return {
        to,
        requires: unmet.flatMap(({ member }) => (member === undefined ? [] : [member])),
        missing: unmet.filter(({ member }) => member === undefined).map(({ code, detail }) => ({ code, detail })),
      }
    }),
  }
}

function errorOf<Situation>({ code, detail, member }: Need<Situation>): InputError {
  return { ...(member === undefined ? {} : { pointer: `/${member}` }), code, detail }
}
