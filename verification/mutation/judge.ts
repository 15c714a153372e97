/** A small alteration of the code, and what the tests made of it. */
export interface Mutant {
  readonly file: string
  readonly line: number
  readonly mutator: string
  readonly original: string
  readonly replacement: string
  /** StrykerJS's word for it. */
  readonly status: string
}

/** Why alterations need not be noticed: those of `file` that replace `original` by one of `replacements`. */
export interface Reason {
  readonly file: string
  readonly original: string
  readonly replacements: readonly string[]
  /** How many of each survive, where the file has the same text in several places; one when it is not said. */
  readonly times?: number
  readonly because: string
}

/** What the tests of an area are worth. */
export interface Verdict {
  readonly noticed: number
  /** Of these, what never came to an end: on a machine that is busy with something else it may be the machine. */
  readonly timedOut: number
  readonly unnoticed: number
  /** Per cent of those that tests could notice. What has a reason counts as unnoticed all the same. */
  readonly score: number
  readonly survivors: readonly { readonly mutant: Mutant; readonly because: string | undefined }[]
  /** Reasons for what is not there, or is noticed by now. */
  readonly idle: readonly Reason[]
}

const noticedStatuses: ReadonlySet<string> = new Set(['Killed', 'Timeout'])
const unnoticedStatuses: ReadonlySet<string> = new Set(['Survived', 'NoCoverage'])

/** Counts what was noticed, and finds the reason for each that was not. */
export function judge(mutants: readonly Mutant[], reasons: readonly Reason[]): Verdict {
  const unnoticed = mutants.filter(({ status }) => unnoticedStatuses.has(status))
  const reasonOf = reasonsFor(unnoticed, reasons)
  const survivors = unnoticed.map((mutant, index) => ({ mutant, reason: reasonOf[index] }))
  const noticed = mutants.filter(({ status }) => noticedStatuses.has(status)).length
  const total = noticed + survivors.length
  const used = new Set(survivors.map(({ reason }) => reason))
  return {
    noticed,
    timedOut: mutants.filter(({ status }) => status === 'Timeout').length,
    unnoticed: survivors.length,
    score: total === 0 ? Number.NaN : Math.floor((noticed / total) * 1000) / 10,
    survivors: survivors.map(({ mutant, reason }) => ({ mutant, because: reason?.because })),
    idle: reasons.filter((reason) => mutants.some(({ file }) => file === reason.file) && !used.has(reason)),
  }
}

/**
 * Why each of these need not be noticed; undefined where nobody has said so. Where more of them read the same than the reason was
 * given for, or fewer, it is no reason for any: nobody can say which of them were meant.
 */
export function reasonsFor(
  survivors: readonly Omit<Mutant, 'status'>[],
  reasons: readonly Reason[],
): (Reason | undefined)[] {
  return survivors.map(({ file, original, replacement }) => {
    const alike = survivors.filter(
      (other) => other.file === file && other.original === original && other.replacement === replacement,
    )
    return reasons.find(
      (reason) =>
        reason.file === file &&
        reason.original === original &&
        reason.replacements.includes(replacement) &&
        alike.length === (reason.times ?? 1),
    )
  })
}
