import type { InputError, Transitions } from '@postern/contracts'
import { problem } from '@postern/service-kit'

export interface Need<Situation> {
  readonly code: string
  readonly detail: string
  /** Undefined if the resource itself must meet it. */
  readonly member?: string
  isMet(situation: Situation): boolean
}

export type StateMachine<Status extends string, Situation> = Readonly<
  Record<Status, Readonly<Partial<Record<Status, readonly Need<Situation>[]>>>>
>

/** Throws a 409 problem that lists the allowed statuses and the unmet requirements. */
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
      allowed.length === 0
        ? `The status ${from} is final.`
        : `The status ${from} can change only to ${allowed.join(', ')}.`
    throw problem('invalid_transition', { detail, allowed })
  }
  const unmet = needs.filter((need) => !need.isMet(situation))
  if (unmet.length === 0) return
  const errors = unmet.map(errorOf)
  throw problem('invalid_transition', {
    detail: `The status cannot become ${to} yet. ${sentencesOfNeeds(unmet)}`,
    allowed,
    errors,
  })
}

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

const mostSaid = 3

function sentencesOfNeeds(needs: readonly Pick<Need<never>, 'detail' | 'member'>[]): string {
  const said = needs
    .slice(0, mostSaid)
    .map(({ member, detail }) =>
      member === undefined ? detail : `\`${member}\` ${detail}${detail.endsWith('.') ? '' : '.'}`,
    )
  return [...said, ...(needs.length > mostSaid ? ['See `errors` for the others.'] : [])].join(' ')
}

function errorOf<Situation>({ code, detail, member }: Need<Situation>): InputError {
  return { ...(member === undefined ? {} : { pointer: `/${member}` }), code, detail }
}
