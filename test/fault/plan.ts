import { createHash } from 'node:crypto'
import { leaseMs } from '@postern/contracts/internal'
import type { Fault } from '../support/fault.ts'

export const isLong: boolean = process.env['POSTERN_FAULTS'] === 'long'
const singleMs = Number(process.env['POSTERN_FAULT_MS'] ?? (isLong ? 4000 : 700))
const pairMs = Number(process.env['POSTERN_FAULT_PAIR_MS'] ?? 3000)
/** How long a process is frozen in the long form. */
const freezesMs = [1000, 3000, 10_000, 30_000]
/** Decides which two faults of two parts are combined. */
export const seed: string = process.env['POSTERN_FAULT_SEED'] ?? '1'
const hasAllPairs = process.env['POSTERN_FAULT_PAIRS'] === 'all'

/** `3/8`: the third of eight parts of the long form. Default: all. */
const [nth, outOf] = (process.env['POSTERN_FAULT_PART'] ?? '1/1').split('/').map(Number)

/** Faults that start together, or none. */
export interface Trial {
  readonly name: string
  readonly applied: readonly Fault[]
  readonly lastsMs: number
  /** Whether it ends by the clock, even if the spared operations were not observed. */
  readonly isExact: boolean
}

function trial(lastsMs: number, applied: readonly Fault[]): Trial {
  return { name: applied.map(({ name }) => name).join(' + ') || 'nothing at all', applied, lastsMs, isExact: false }
}

function singles(fault: Fault): Trial[] {
  if (isLong && fault.isFreeze === true) {
    return freezesMs.map((lastsMs) => ({
      ...trial(lastsMs, [fault]),
      name: `${fault.name} for ${lastsMs / 1000} s`,
      isExact: lastsMs < leaseMs,
    }))
  }
  return [trial(fault.outlastsLeases === true ? Math.max(singleMs, leaseMs + 500) : singleMs, [fault])]
}

/** Returns one of several, the same for each seed and name. */
function draw<T>(from: readonly T[], name: string): readonly T[] {
  const drawn = createHash('sha256').update(`${seed} ${name}`).digest().readUInt32BE(0) % from.length
  return from.slice(drawn, drawn + 1)
}

/** Returns each pair of parts once, with faults drawn by the seed, or every pair of faults. */
function pairs(faults: readonly Fault[]): Trial[] {
  const parts = [...Map.groupBy(faults, ({ part }) => part)]
  return parts.flatMap(([part, ofPart], index) =>
    parts.slice(index + 1).flatMap(([other, ofOther]) => {
      const one = hasAllPairs ? ofPart : draw(ofPart, `${part}, beside ${other}`)
      const two = hasAllPairs ? ofOther : draw(ofOther, `${other}, beside ${part}`)
      return one.flatMap((first) => two.map((second) => trial(pairMs, [first, second])))
    }),
  )
}

/** Returns trials: no fault, each fault, and in the long form pairs. */
export function planTrials(faults: readonly Fault[]): Trial[] {
  const single = faults.filter(({ inShortForm }) => isLong || inShortForm === true).flatMap(singles)
  return [trial(singleMs, []), ...single, ...(isLong ? pairs(faults) : [])]
}

/** Returns the trials of this run's part. */
export function partOf(trials: readonly Trial[]): Trial[] {
  if (nth === undefined || outOf === undefined || !(nth >= 1 && nth <= outOf)) {
    throw new Error('POSTERN_FAULT_PART is to be a number and how many parts there are, such as 3/8')
  }
  return trials.filter((_trial, index) => index % outOf === nth - 1)
}
