import { cpus, release, totalmem } from 'node:os'
import type { ColdStart } from './cold-start.ts'
import type { Measured, Ratio } from './compare.ts'
import type { ConsoleSpeed } from './console.ts'
import type { Latency } from './latency.ts'
import type { FindingsScale } from './findings-scale.ts'
import type { Neighbour } from './neighbour.ts'
import type { ParallelWrites } from './parallel-writes.ts'
import type { HotKeys } from './hot-keys.ts'
import type { ListResult, WaysCompared } from './list.ts'
import type { KeysSpeed } from './keys.ts'
import type { ManyKeys } from './many-keys.ts'
import type { Parts } from './parts.ts'
import type { RevocationLatency } from './revocation.ts'
import { generatorName } from './load.ts'
import type { SyncMemory, SyncSpeed } from './sync.ts'
import type { UploadResult } from './upload.ts'
import { isPinned } from './processes.ts'
import { loadNow } from './stats.ts'
import { table } from '../../test/support/table.ts'
import { boundsOf, verdict } from './verdicts.ts'
import type { WebhookSpeed } from './webhooks.ts'

export interface Comparison {
  readonly leftOut: readonly string[]
  readonly connections: number
  readonly proxies: readonly Measured[]
  readonly sameAgainstSame: Ratio
  readonly gatewayAgainst: readonly Ratio[]
  readonly verdict: string
  readonly latency: { readonly requestsPerSecond: number; readonly ways: readonly Latency[] }
}

export interface Figures {
  readonly revocation: readonly RevocationLatency[]
  readonly gateway: Comparison
  readonly parts: Parts
  readonly 'cold-start': ColdStart
  readonly 'hot-keys': readonly HotKeys[]
  readonly 'many-keys': readonly ManyKeys[]
  readonly keys: KeysSpeed
  readonly list: ListResult
  readonly upload: UploadResult
  readonly sync: SyncSpeed
  readonly 'sync-memory': readonly SyncMemory[]
  readonly console: ConsoleSpeed
  readonly 'parallel-writes': readonly ParallelWrites[]
  readonly neighbour: readonly Neighbour[]
  readonly webhooks: WebhookSpeed
  readonly 'many-findings': FindingsScale
}

export interface Results {
  readonly machine: Machine
  readonly parts: {
    [Part in keyof Figures]?: {
      readonly measuredAt: string
      readonly minutes: number
      readonly loadBefore: number
      readonly figures: Figures[Part]
    }
  }
}

interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryGiB: number
  readonly kernel: string
  readonly node: string
  readonly pinned: boolean
  readonly loadGenerator: string
  readonly loadBefore: number
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    pinned: isPinned,
    loadGenerator: generatorName,
    loadBefore: loadNow(),
  }
}

const required = 1.3
const tolerance = 0.05

export function verdictOf({ throughput, cpu }: Ratio, same: Ratio): string {
  const apart = Math.max(...[same.throughput, same.cpu ?? 1].map((ratio) => Math.abs(ratio - 1)))
  if (apart > tolerance) {
    return `none: two processes of the same proxy differ by ${Math.round(apart * 100)} %, more than ${tolerance * 100} %`
  }
  const worst = Math.min(throughput, cpu ?? throughput)
  return verdict(`at least ${required} times @fastify/http-proxy`, worst >= required, String(worst))
}

export function printResults(results: Results): void {
  const { machine, parts } = results
  console.log(`\n${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load ${machine.loadBefore}`)
  if (parts.gateway !== undefined) printComparison(parts.gateway.figures)
  if (parts.parts !== undefined) printParts(parts.parts.figures)
  if (parts['cold-start'] !== undefined) printColdStart(parts['cold-start'].figures)
  for (const sides of parts['hot-keys']?.figures ?? []) printHotKeys(sides)
  if (parts['many-keys'] !== undefined) printManyKeys(parts['many-keys'].figures)
  if (parts.keys !== undefined) printKeys(parts.keys.figures)
  if (parts.list !== undefined) printList(parts.list.figures)
  if (parts.upload !== undefined) printUpload(parts.upload.figures)
  if (parts.sync !== undefined) printSync(parts.sync.figures)
  if (parts['sync-memory'] !== undefined) printSyncMemory(parts['sync-memory'].figures)
  if (parts.console !== undefined) printConsole(parts.console.figures)
  if (parts['parallel-writes'] !== undefined) printParallelWrites(parts['parallel-writes'].figures)
  if (parts.neighbour !== undefined) printNeighbour(parts.neighbour.figures)
  if (parts.webhooks !== undefined) printWebhooks(parts.webhooks.figures)
  if (parts['many-findings'] !== undefined) printScale(parts['many-findings'].figures)
  if (parts.revocation !== undefined) printRevocation(parts.revocation.figures)
  for (const [part, lines] of Object.entries(boundsOf(results)))
    for (const line of lines) console.log(`  ${part}: ${line}`)
}

function printKeys({ keys, plainPage, ratios, counts }: KeysSpeed): void {
  title(`Pages of 100 of ${keys} keys; the plain page takes ${plainPage} ms, the counts of key health ${counts} ms`)
  table(['filter', '÷ the plain page'], Object.entries(ratios))
}

function printComparison(comparison: Comparison): void {
  const { latency } = comparison
  for (const what of comparison.leftOut) console.log(`left out: ${what}`)
  title(`Full load, ${comparison.connections} connections, load by ${generatorName}`)
  table(
    ['', 'requests/s', 'CPU µs a request', 'p50 ms', 'p99 ms'],
    comparison.proxies.map((proxy) => [
      proxy.name,
      proxy.requestsPerSecond,
      proxy.cpuMicroseconds,
      proxy.p50Milliseconds,
      proxy.p99Milliseconds,
    ]),
  )
  table(
    ['gateway ÷', 'throughput', 'CPU', 'host took'],
    comparison.gatewayAgainst.map(({ against, throughput, cpu, stolen }) => [
      against,
      throughput,
      cpu,
      `${Math.round(stolen * 100)} %`,
    ]),
  )
  console.log(
    `  the same against the same: ${comparison.sameAgainstSame.throughput}, CPU ${comparison.sameAgainstSame.cpu}`,
  )
  console.log(`  verdict: ${comparison.verdict}`)
  title(`Latency at ${latency.requestsPerSecond} requests a second, ms`)
  table(
    ['', 'p50', 'p99', 'added p50', 'added p99'],
    latency.ways.map(({ name, p50, p99, addedP50, addedP99 }) => [name, p50, p99, addedP50, addedP99]),
  )
}

function printParts(parts: Parts): void {
  title('A request by its parts, CPU µs')
  table(
    ['', 'µs'],
    [
      ...parts.alone.map(({ name, cpuMicroseconds }): [string, number] => [name, cpuMicroseconds]),
      ['HTTP with the client, and all else', parts.http],
      ['a request that the gateway answers', parts.answered],
      ['forward: HTTP with the service', parts.forward],
      ['a request that it forwards', parts.forwarded],
      ['yardstick: text made, hashed and parsed', parts.yardsticks.processor],
      ['yardstick: a request through a bare proxy', parts.yardsticks.http],
    ],
  )
}

function printColdStart(cold: ColdStart): void {
  title(`Cold start: ${cold.keys} keys in no memory, ${cold.together} requests at once for each`)
  table(
    [
      'requests',
      'seconds',
      'p50 ms',
      'p99 ms',
      'look-ups at keys',
      'transactions',
      'requests/s cold',
      'warm',
      'steady after s',
    ],
    [
      [
        String(cold.requests),
        cold.seconds,
        cold.p50,
        cold.p99,
        cold.lookupsAtKeys,
        cold.transactions,
        cold.coldPerSecond,
        cold.warmPerSecond,
        cold.steadySeconds,
      ],
    ],
  )
  for (const line of cold.verdicts) console.log(`  ${line}`)
}

function printHotKeys({ title: text, measured, shares, sameAgainstSame, against }: HotKeys): void {
  title(text)
  table(
    ['', 'requests/s', 'CPU µs a request', 'in memory %', 'in Redis %', 'at keys %'],
    measured.map(({ name, requestsPerSecond, cpuMicroseconds }) => [
      name,
      requestsPerSecond,
      cpuMicroseconds,
      ...(['memory', 'redis', 'keys'] as const).map((level) => shares[name]?.[level]),
    ]),
  )
  console.log(`  the same against the same: ${sameAgainstSame.throughput}, CPU ${sameAgainstSame.cpu}`)
  for (const one of against) {
    const { throughput, cpu } = one.ratio
    console.log(`  ${one.name}: ${throughput}, CPU ${cpu}, hits ${one.hitsApart} points apart; ${one.verdict}`)
  }
}

function printManyKeys(manyKeys: readonly ManyKeys[]): void {
  title('Many keys and tenants, requests spread evenly over them')
  table(
    ['keys stored', 'tenants', 'used', 'first uses/s', 'requests/s', 'CPU µs a request'],
    manyKeys.map((row) => [
      row.keysStored,
      row.tenants,
      row.keysUsed,
      row.firstUsesPerSecond,
      row.requestsPerSecond,
      row.cpuMicroseconds,
    ]),
  )
}

function printList(list: ListResult): void {
  const { cpu, busy } = list
  title('A page of 100 findings, ms: one by one; of a processor; several at once')
  table(
    [
      '',
      'one by one',
      '÷ rows read by pg',
      '÷ JSON made by SQL',
      'CPU',
      '÷ rows',
      '÷ JSON',
      'busy',
      '÷ rows',
      '÷ JSON',
    ],
    [
      ['gateway, service and RLS', list.throughEverything, list.ratio],
      ['service and RLS', list.throughService, list.serviceRatio, list.jsonRatio, ...sharesOf('service', cpu, busy)],
      ['only the same SQL, rows read by pg', list.sqlRows, 1, undefined, ...sharesOf('sqlRows', cpu, busy)],
      [
        'only the same SQL, as JSON, which the service sends',
        list.sqlJson,
        undefined,
        1,
        ...sharesOf('sqlJson', cpu, busy),
      ],
    ],
  )
}

function sharesOf(
  way: 'service' | 'sqlRows' | 'sqlJson',
  ...shares: readonly (WaysCompared | undefined)[]
): (number | undefined)[] {
  return shares.flatMap((share) => {
    if (way === 'service') return [share?.service, share?.ratio, share?.jsonRatio]
    return way === 'sqlRows' ? [share?.sqlRows, 1, undefined] : [share?.sqlJson, undefined, 1]
  })
}

function printSync(sync: SyncSpeed): void {
  title(`A connector brings ${sync.rows} entities (CSV, ${sync.mebibytes} MiB), seconds`)
  table(
    ['', 'seconds', '÷ COPY'],
    [
      ['COPY into a plain table', sync.copySeconds, 1],
      ['COPY of the stored rows, with indexes and checks', sync.storedSeconds, sync.storedRatio],
      ['first import', sync.firstSeconds, sync.firstRatio],
      ['the same rows again, in another order', sync.unchangedSeconds, sync.unchangedRatio],
      ['one row in a thousand changed', sync.fewChangedSeconds, sync.fewChangedRatio],
    ],
  )
}

function printSyncMemory(found: readonly SyncMemory[]): void {
  title('What the sync service holds at its peak, MiB')
  table(
    ['rows', 'MiB'],
    found.map(({ rows, peakMiB }) => [String(rows), peakMiB]),
  )
}

function printUpload(upload: UploadResult): void {
  title(`One file of ${upload.mebibytes} MiB, MiB a second`)
  table(
    ['gateway and evidence', 'nginx, PUT', 'ratio', 'nginx, PUT and synced', 'ratio'],
    [[String(upload.evidence), upload.nginx, upload.ratio, upload.nginxSynced, upload.syncedRatio]],
  )
}

function printNeighbour(rows: readonly Neighbour[]): void {
  title('Lists of a tenant while another one asks for pages of 50 MB')
  table(
    ['attack', 'p50 ms', 'p99 ms', '÷ quiet', 'requests', 'failures'],
    rows.map(({ attack, p50, p99, ratio, requests, failures }) => [attack, p50, p99, ratio, requests, failures]),
  )
}

function printWebhooks(found: WebhookSpeed): void {
  title('Webhooks, of which one endpoint hangs and one fails')
  table(
    ['events', 'a second', 'endpoints', 'p50 s', 'p99 s', 'MiB early', 'MiB late'],
    [
      [
        String(found.events),
        found.perSecond,
        found.endpoints,
        found.p50,
        found.p99,
        found.earlyMiB ?? '-',
        found.lateMiB ?? '-',
      ],
    ],
  )
}

function printParallelWrites(found: readonly ParallelWrites[]): void {
  title('Findings that several clients create at once, a second')
  table(
    ['clients', 'ms to the standby', 'one tenant', 'a tenant each', 'ratio', 'failures'],
    found.map(({ clients, standbyMs, ofOneTenant, ofManyTenants, ratio, failures }) => [
      String(clients),
      standbyMs,
      ofOneTenant,
      ofManyTenants,
      ratio,
      failures,
    ]),
  )
}

function printScale(scale: FindingsScale): void {
  const { few, many } = scale
  title(
    `A page of 100 findings, ms; ${many.tenants} tenants, ${many.findings} findings, ${many.logEntries} log entries`,
  )
  table(
    ['', 'ms', 'ratio', 'of'],
    [
      [`first page of ${few.findings} findings`, scale.firstOfFew, undefined, undefined],
      [`first page of ${many.findings}`, scale.first, scale.large, 'few'],
      ['thousandth page', scale.thousandth, scale.deep, 'first'],
    ],
  )
  console.log(`  filled in ${scale.fillSeconds} s`)
  printList(scale.list)
}

function printConsole({ firstPaint, nextPaint, manyKeys }: ConsoleSpeed): void {
  title('The console in Chromium without a graphics card, ms')
  table(
    ['', 'ms'],
    [
      ['largest contentful paint of the list of keys, first visit', firstPaint],
      ['the same, next visit', nextPaint],
      [`a list of ${manyKeys.keys} keys is whole`, manyKeys.whole],
      ['longest pause while it is scrolled from end to end', manyKeys.longestPause],
      ['search in it, from the letter to the picture', manyKeys.search],
    ],
  )
}

function printRevocation(revocation: readonly RevocationLatency[]): void {
  title('Revocation, ms after the call')
  table(
    ['gateways', 'keys', 'Redis', 'success p50', 'p99', 'max', 'first refusal p50', 'p99', 'max'],
    revocation.map(({ gateways, keys, redis, success, firstRefusal }) => [
      gateways,
      keys,
      redis,
      success.p50,
      success.p99,
      success.max,
      firstRefusal.p50,
      firstRefusal.p99,
      firstRefusal.max,
    ]),
  )
}

function title(text: string): void {
  console.log(`\n${text}`)
}
