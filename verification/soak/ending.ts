import type { Judged } from './judge.ts'

export interface Ending {
  /** 0: every figure is flat. 1: something is wrong. 2: the run cannot tell. */
  readonly exitCode: 0 | 1 | 2
  readonly text: string
  readonly isJudged: boolean
}

export interface Seen {
  readonly missing: readonly string[]
  readonly verdicts: readonly (Judged['verdict'] | undefined)[]
  readonly faults: number
  /** Without any, the load proves nothing about revocation. */
  readonly refusedAsRevoked: number
}

export function endingOf({ missing, verdicts, faults, refusedAsRevoked }: Seen): Ending {
  const isJudged = verdicts.length > 0 && verdicts.every((verdict) => verdict !== undefined)
  const count = (verdict: Judged['verdict']): number => verdicts.filter((one) => one === verdict).length
  const counted = isJudged
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
  return { exitCode: isWrong ? 1 : canTell ? 0 : 2, text: [...counted, ...wrong].join('; '), isJudged }
}

const words = {
  rises: 'rise by more than their bound',
  unclear: 'jump so much that this run cannot tell (a longer one may: POSTERN_SOAK_MINUTES)',
  unread: 'could not be read',
}
