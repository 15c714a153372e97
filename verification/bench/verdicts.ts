import { type Moved, describeMoved } from './against.ts'
import type { ListResult } from './list.ts'
import type { Results } from './report.ts'

/** NO ends the bench with exit code 1. */
export function verdict(question: string, holds: boolean, figure: string): string {
  return `${question}: ${holds ? 'yes' : 'NO'} (${figure})`
}

export function boundsOf({ parts }: Pick<Results, 'parts'>): Readonly<Record<string, readonly string[]>> {
  const atMost = (question: string, bound: number, found: number | undefined): string[] =>
    found === undefined ? [] : [verdict(`${question}: at most ${bound}`, found <= bound, String(found))]
  const list = (found: ListResult | undefined): string[] => [
    ...atMost('several at once, service and RLS ÷ the same SQL, rows read by pg', 1.5, found?.busy.ratio),
    ...atMost('several at once, service and RLS ÷ the same SQL as JSON', 1.5, found?.busy.jsonRatio),
    ...atMost('processor time of service and RLS ÷ the same SQL, rows read by pg', 1.5, found?.cpu?.ratio),
    ...atMost('processor time of service and RLS ÷ the same SQL as JSON', 1.5, found?.cpu?.jsonRatio),
  ]
  const [upload, scale, sync] = [parts.upload?.figures, parts['many-findings']?.figures, parts.sync?.figures]
  const peaks = (parts['sync-memory']?.figures ?? []).flatMap(({ peakMiB }) => peakMiB ?? [])
  const [least = 0] = peaks
  return {
    revocation: (parts.revocation?.figures ?? []).flatMap(({ gateways, keys, redis, success }) =>
      keys === 1
        ? atMost(`ms of a revocation at ${gateways} gateways, Redis ${redis}, p99`, 1000, success.p99)
        : atMost(`ms of a revocation of ${keys} keys at ${gateways} gateways`, 5000, success.max),
    ),
    keys: [
      ...atMost('page of a filter ÷ plain page of keys', 1.5, parts.keys?.figures.worst),
      ...atMost('ms of the counts of key health', 300, parts.keys?.figures.counts),
    ],
    list: list(parts.list?.figures),
    upload:
      upload?.ratio === undefined ? [] : [verdict('at least 0.6 of nginx', upload.ratio >= 0.6, String(upload.ratio))],
    'many-findings': [
      ...atMost('thousandth page ÷ first', 1.5, scale?.deep),
      ...atMost('page among many ÷ among few', 1.3, scale?.large),
      ...list(scale?.list),
    ],
    'parallel-writes': (parts['parallel-writes']?.figures ?? []).flatMap(({ standbyMs, ratio, failures }) => [
      verdict(`one tenant ÷ a tenant each, standby ${standbyMs} ms away: at least 0.7`, ratio >= 0.7, String(ratio)),
      ...atMost(`failures of one tenant, standby ${standbyMs} ms away`, 0, failures),
    ]),
    neighbour: (parts.neighbour?.figures ?? []).flatMap(({ attack, failures }) =>
      atMost(`failures of another tenant, attack: ${attack}`, 0, failures),
    ),
    webhooks: [
      ...atMost('seconds to a healthy endpoint, p99', 5, parts.webhooks?.figures.p99),
      ...atMost(
        'MiB from a fifth of the events to all',
        64,
        parts.webhooks?.figures.lateMiB === undefined || parts.webhooks.figures.earlyMiB === undefined
          ? undefined
          : parts.webhooks.figures.lateMiB - parts.webhooks.figures.earlyMiB,
      ),
    ],
    sync: [
      ...atMost('first import ÷ COPY', 8, sync?.firstRatio),
      ...atMost('no change ÷ COPY', 3, sync?.unchangedRatio),
    ],
    'sync-memory':
      peaks.length === 0
        ? []
        : atMost('MiB from the fewest rows', 64, Math.max(...peaks.map((peak) => Math.abs(peak - least)))),
  }
}

/** If two equal runs differ too much, nothing fails. */
export function failedVerdicts({ parts }: Pick<Results, 'parts'>, moved: readonly Moved[]): string[] {
  const all = {
    ...boundsOf({ parts }),
    gateway: parts.gateway === undefined ? [] : [parts.gateway.figures.verdict],
    'cold-start': parts['cold-start']?.figures.verdicts ?? [],
    'hot-keys': parts['hot-keys']?.figures.flatMap(({ against }) => against.map((one) => one.verdict)) ?? [],
    parts: describeMoved(moved).filter((line) => !line.startsWith('cheaper') && !line.startsWith('no part')),
  }
  return Object.entries(all).flatMap(([part, lines]) =>
    lines.filter((line) => part === 'parts' || line.includes(': NO (')).map((line) => `${part}: ${line}`),
  )
}
