import { type UsageReport, maxUsageTogether } from '@postern/contracts/internal'
import type { Logger } from '@postern/service-kit'
import { ContentRefusedError, type KeysClient } from './authenticate/keys-client.ts'

export interface UsageSource {
  readonly kind: keyof UsageReport
  readonly size: number
  /** Returns undefined if there are no lines. */
  take(): UsageBatch | undefined
}

interface UsageBatch {
  readonly count: number
  readonly report: UsageReport
  keep(): void
  halves(): readonly [UsageBatch, UsageBatch]
}

/** If so many single lines are rejected and none is recorded, the fault is not in the lines. */
const maxRefused = 20
/** The longest id or name that the keys service stores. */
export const maxTextLength = 255

export function storableText(text: string): string {
  return text.slice(0, maxTextLength).toWellFormed().replaceAll('\0', '')
}

/** Halves a rejected report until the faulty line is found. Resolves to false to stop for now. */
export async function sendLines(
  source: UsageSource,
  { keys, logger }: { readonly keys: Pick<KeysClient, 'reportUsage'>; readonly logger: Logger },
): Promise<boolean> {
  const waiting: UsageBatch[] = []
  const refused: UsageBatch[] = []
  let recorded = 0
  const keepUnsent = (error: unknown): void => {
    for (const lines of [...waiting, ...refused]) lines.keep()
    logger.warn({ event: 'usage_report_failed', kind: source.kind, kept: source.size, err: error })
  }
  for (;;) {
    const lines = waiting.pop() ?? source.take()
    if (lines === undefined) break
    try {
      await keys.reportUsage(lines.report)
      recorded += lines.count
    } catch (error) {
      if (!(error instanceof ContentRefusedError)) {
        lines.keep()
        keepUnsent(error)
        return false
      }
      if (lines.count > 1) {
        const [first, second] = lines.halves()
        waiting.push(second, first)
        continue
      }
      refused.push(lines)
      if (recorded > 0 || refused.length < maxRefused) continue
      keepUnsent(error)
      return true
    }
  }
  if (refused.length === 0) return true
  if (recorded === 0) keepUnsent(new ContentRefusedError('no line of this kind was accepted'))
  else logger.error({ event: 'usage_lines_refused', kind: source.kind, lines: refused.length })
  return true
}

export function createUsageSource<T>(
  kind: keyof UsageReport,
  lines: Map<string, T>,
  {
    report,
    keep,
    maxLines = maxUsageTogether,
  }: {
    readonly report: (some: T[]) => UsageReport
    readonly keep: (line: T) => void
    /** Lines of one report. */
    readonly maxLines?: number
  },
): UsageSource {
  const linesOf = (some: readonly T[]): UsageBatch => ({
    count: some.length,
    report: report([...some]),
    keep: () => some.forEach(keep),
    halves: () => {
      const middle = Math.ceil(some.length / 2)
      return [linesOf(some.slice(0, middle)), linesOf(some.slice(middle))]
    },
  })
  return {
    kind,
    get size() {
      return lines.size
    },
    take: () => {
      const some = removeFirst(lines, maxLines)
      return some.length === 0 ? undefined : linesOf(some)
    },
  }
}

function removeFirst<T>(collected: Map<string, T>, most: number): T[] {
  const some: T[] = []
  for (const [id, value] of collected) {
    if (some.length === most) break
    some.push(value)
    collected.delete(id)
  }
  return some
}
