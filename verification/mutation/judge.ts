export interface Mutant {
  readonly file: string
  readonly line: number
  readonly mutator: string
  readonly original: string
  readonly replacement: string
  /** StrykerJS's status. */
  readonly status: string
}

/** Why mutations of `original` to `replacements` need not be detected. */
export interface Reason {
  readonly file: string
  readonly original: string
  readonly replacements: readonly string[]
  /** If the file has the text several times; 1 by default. */
  readonly times?: number
  readonly because: string
}

export interface Verdict {
  readonly noticed: number
  readonly timedOut: number
  readonly unnoticed: number
  /** In percent. Survivors with a reason count as undetected. */
  readonly score: number
  readonly survivors: readonly { readonly mutant: Mutant; readonly because: string | undefined }[]
  /** Reasons without a survivor. */
  readonly idle: readonly Reason[]
}

const noticedStatuses: ReadonlySet<string> = new Set(['Killed', 'Timeout'])
const unnoticedStatuses: ReadonlySet<string> = new Set(['Survived', 'NoCoverage'])

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

/** If the number of equal survivors differs from the reason's, it applies to none of them. */
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
