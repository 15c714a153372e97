import type { Judged } from './judge.ts'

/** What a soak has come to. */
export interface Ending {
  /** 0: all that must be flat is. 1: something is wrong. 2: nothing is known to be wrong, but the run cannot tell. */
  readonly exitCode: 0 | 1 | 2
  readonly text: string
  /** Whether the run was long enough to judge what grows. */
  readonly isJudged: boolean
}

export interface Seen {
  /** Figures that were never noted, by name. */
  readonly missing: readonly string[]
  /** Of each figure; undefined: the run was too short to judge it. */
  readonly verdicts: readonly (Judged['verdict'] | undefined)[]
  /** How many answers were wrong. */
  readonly faults: number
  /** How many requests were refused because their key was revoked: without any, the load has not shown that any is. */
  readonly refusedAsRevoked: number
}

/** Reckons how a soak ends. Only what was judged, in full, ends it with 0. */
export function endingOf({ missing, verdicts, faults, refusedAsRevoked }: Seen): Ending {
  const isJudged = verdicts.length > 0 && verdicts.every((verdict) => verdict !== undefined)
  const count = (verdict: Judged['verdict']): number => verdicts.filter((one) => one === verdict).length
  const told = isJudged
    ? [
        `${count('flat')} of ${verdicts.length} figures flat`,
        ...(['rises', 'unclear', 'unread'] as const).flatMap((verdict) =>
          count(verdict) === 0 ? [] : [`${count(verdict)} ${words[verdict]}`],
        ),
      ]
    : ['too short to judge what grows']
  const wrong = [
    ...missing.map((name) => `never noted: ${name}`),
    ...(refusedAsRevoked === 0 ? ['no revoked key was ever refused'] : []),
  ]
  const isWrong = wrong.length > 0 || faults > 0 || count('rises') > 0 || count('unread') > 0
  const canTell = isJudged && count('unclear') === 0
  return { exitCode: isWrong ? 1 : canTell ? 0 : 2, text: [...told, ...wrong].join('; '), isJudged }
}

const words = {
  rises: 'rise by more than their bound',
  unclear: 'jump so much that this run cannot tell (a longer one may: POSTERN_SOAK_MINUTES)',
  unread: 'could not be read',
}
