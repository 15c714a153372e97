import { type Moved, describeMoved } from './against.ts'
import type { Results } from './report.ts'

/** A verdict in one line. NO ends the bench with exit code 1. */
export function verdict(question: string, holds: boolean, figure: string): string {
  return `${question}: ${holds ? 'yes' : 'NO'} (${figure})`
}

/**
 * What the bench fails for, a line each: verdicts that say NO, and parts of a request that have become dearer. Where two of the
 * same differ too much there is no verdict, and nothing fails.
 */
export function failedVerdicts({ parts }: Pick<Results, 'parts'>, moved: readonly Moved[]): string[] {
  const all = {
    gateway: parts.gateway === undefined ? [] : [parts.gateway.figures.verdict],
    'cold-start': parts['cold-start']?.figures.verdicts ?? [],
    'hot-keys': parts['hot-keys']?.figures.flatMap(({ against }) => against.map((one) => one.verdict)) ?? [],
    parts: describeMoved(moved).filter((line) => line.startsWith('DEARER')),
  }
  return Object.entries(all).flatMap(([part, lines]) =>
    lines.filter((line) => part === 'parts' || line.includes(': NO (')).map((line) => `${part}: ${line}`),
  )
}
