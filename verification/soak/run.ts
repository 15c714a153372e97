// `npm run test:soak`. Writes .results/soak.json. Exit code 1: a figure rises or an answer was wrong; 2: the run cannot
// tell.
import { setTimeout as delay } from 'node:timers/promises'
import { watermarkTtlMs } from '@postern/contracts/internal'
import { type ManagedProcess, type TestStack, startTestCluster, startTestStack } from '@postern/local-stack/testing'
import { describeMachine } from '../bench/report.ts'
import { round } from '../bench/stats.ts'
import { watchMachine } from '../containers/machine.ts'
import { writeResults } from '../../test/support/results.ts'
import { table } from '../../test/support/table.ts'
import { parseArguments } from '../arguments.ts'
import { type Ending, endingOf } from './ending.ts'
import { type Series, judgedPoints, kinds, listUnrecorded } from './figures.ts'
import { inspectorVariables } from './heap.ts'
import { type Judged, judge } from './judge.ts'
import { startMixedLoad } from './load.ts'
import { openSampler } from './sampler.ts'
import { watchStalls } from './stalls.ts'

parseArguments(
  'Usage: npm run test:soak\nPOSTERN_SOAK_MINUTES (60) and POSTERN_SOAK_RATE (40 requests a second) change it.',
  {},
  [],
)

const minuteMs = 60_000
/** An hour, because in 15 minutes noise of the machine looks like growth. */
const minutes = Number(process.env['POSTERN_SOAK_MINUTES'] ?? 60)
const perSecond = Number(process.env['POSTERN_SOAK_RATE'] ?? 40)
const sampleEveryMs = 5000
/** Longer than gateways remember revocations, because memory grows until then. */
const warmUpMs = Math.max((minutes / 3) * minuteMs, watermarkTtlMs + minuteMs)
/** In a shorter time, noise and growth cannot be distinguished. */
const leastJudgedMs = 10 * minuteMs
const gatewayCount = 2

const variables = {
  ...inspectorVariables,
  POSTERN_CHECK_ANSWERS: 'off',
  NODE_ENV: 'production',
  // Small, so that the cache of keys is full after minutes.
  POSTERN_MEMORY_ENTRIES: '100',
  // All requests come from one address.
  POSTERN_FAILED_ATTEMPTS: '1000000',
  POSTERN_PUBLIC_REQUESTS: '1000000',
  // Abandoned sessions end within the warm-up.
  POSTERN_SESSION_IDLE_MINUTES: '1',
} as const

const running: { stop(): Promise<unknown> }[] = []

async function stopAll(): Promise<void> {
  for (const part of running.splice(0).toReversed()) await part.stop()
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stopAll().finally(() => process.exit(1)))
}

function say(what: string): void {
  process.stderr.write(`soak: ${what}\n`)
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`)
}

async function start(): Promise<TestStack> {
  running.push(await startTestCluster())
  const stack = await startTestStack({ gateways: gatewayCount, console: true, env: variables })
  running.push(stack)
  return stack
}

function processesOf(stack: TestStack): ManagedProcess[] {
  const names = ['gateway-1', 'gateway-2', 'keys', 'findings', 'universe', 'evidence', 'sync'] as const
  return [
    ...names.map((name) => stack.process(name)),
    ...stack.consoleProcesses.filter(({ name }) => name === 'console'),
  ]
}

interface Row extends Series {
  /** Undefined if the run was too short. */
  readonly judged: Judged | undefined
}

function judgeAll(series: readonly Series[], lastedMs: number): Row[] {
  return series.map((one) => ({
    ...one,
    judged:
      lastedMs - warmUpMs < leastJudgedMs
        ? undefined
        : judge(
            judgedPoints(one).filter(({ at }) => at >= warmUpMs),
            kinds[one.kind].boundPerHour,
          ),
  }))
}

function print(rows: readonly Row[]): void {
  table(
    ['', 'early', 'late', 'rise an hour', 'bound', 'spread', ''],
    rows.map(({ part, kind, points, judged }) => {
      const { unit, boundPerHour } = kinds[kind]
      const name = `${part}: ${kind}${unit === '' ? '' : `, ${unit}`}`
      if (judged === undefined) return [name, round(points[0]?.value ?? 0, 1), round(points.at(-1)?.value ?? 0, 1)]
      const { early, late, risePerHour, spread, verdict } = judged
      return [name, round(early, 1), round(late, 1), round(risePerHour, 1), boundPerHour, round(spread), verdict]
    }),
  )
}

async function soak(): Promise<Ending['exitCode']> {
  say('starting everything')
  const stack = await start()
  const processes = processesOf(stack)
  const sampler = await openSampler(stack, processes)
  // A process ends only after its inspector was closed.
  running.push({ stop: sampler.close })
  const measuredAt = new Date().toISOString()
  const machine = watchMachine()
  const watch = await watchStalls()
  running.push(watch)
  const load = await startMixedLoad(stack, perSecond, watch.stalls)
  sampler.begin()
  const beganAt = performance.now()
  say(`${minutes} minutes of ${perSecond} requests a second, judged from minute ${round(warmUpMs / minuteMs, 1)} on`)
  for (let due = 0; due <= minutes * minuteMs; due += sampleEveryMs) {
    await delay(Math.max(0, beganAt + due - performance.now()))
    await sampler.look()
    if (due > 0 && due % (5 * minuteMs) === 0) say(`${due / minuteMs} minutes`)
  }
  const lastedMs = performance.now() - beganAt
  const { faults, ofStalls, ...report } = await load.finish()
  const served = machine()
  const rows = judgeAll(sampler.series, lastedMs)

  print(rows)
  tell(`  ${JSON.stringify(report)}`)
  tell(
    `  machine: ${Math.round(served.stolen * 100)} % of the processors taken by the host, none free for ${round(served.fullMs / 1000, 1)} s at the longest`,
  )
  const stalls = watch.stalls.map(({ from, to }) => ({
    from: round((from - beganAt) / 1000),
    to: round((to - beganAt) / 1000),
  }))
  for (const { from, to } of stalls) tell(`  the host gave no processor from second ${from} to ${to}`)
  for (const line of ofStalls.slice(0, 50)) tell(`  OF A STALL ${line}`)
  for (const fault of faults.slice(0, 50)) tell(`  WRONG ${fault}`)
  const ending = endingOf({
    missing: listUnrecorded(
      processes.map(({ name }) => name),
      sampler.series,
    ),
    verdicts: rows.map(({ judged }) => judged?.verdict),
    faults: faults.length,
    refusedAsRevoked: report.refusedAsRevoked,
  })
  tell(
    `soak: ${report.requests} requests in ${round(lastedMs / minuteMs, 1)} minutes, ${faults.length} wrong, ` +
      `${ofStalls.length} answers of 503 beside ${stalls.length} stalls of the host; ${ending.text}`,
  )
  if (ending.isJudged) {
    const noted = { stalls, failedOfStalls: ofStalls.length }
    await write({ measuredAt, machine: describeMachine(), served, noted, load: { perSecond, ...report }, faults, rows })
  }
  return ending.exitCode
}

interface Result {
  readonly measuredAt: string
  readonly machine: ReturnType<typeof describeMachine>
  readonly served: unknown
  readonly noted: Readonly<Record<string, unknown>>
  readonly load: unknown
  readonly faults: readonly string[]
  readonly rows: readonly Row[]
}

async function write({ measuredAt, machine, served, noted, load, faults, rows }: Result): Promise<void> {
  const figures = rows.map(({ part, kind, points, judged }) => ({
    part,
    kind,
    ...kinds[kind],
    ...(judged === undefined
      ? {}
      : {
          early: round(judged.early),
          late: round(judged.late),
          risePerHour: round(judged.risePerHour),
          spread: round(judged.spread),
          verdict: judged.verdict,
        }),
    // Seconds since the load began, and the value.
    points: judgedPoints({ part, kind, points }).map(({ at, value }) => [Math.round(at / 1000), round(value)]),
  }))
  const judgedFromMinute = warmUpMs / minuteMs
  const result = {
    measuredAt,
    minutes,
    judgedFromMinute,
    machine,
    served,
    ...noted,
    load,
    faults: faults.length,
    figures,
  }
  const text = JSON.stringify(result, undefined, 2)
  // One value per line would be thousands of lines.
  const short = text.replaceAll(/\[\s+(-?[\d.]+),\s+(-?[\d.]+|null)\s+\]/g, '[$1, $2]')
  await writeResults('soak', short)
}

try {
  process.exitCode = await soak()
} finally {
  await stopAll()
}
