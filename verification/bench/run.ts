// `npm run bench`: README.md has the options. Exit code 1: a verdict is NO, or a part of a request is slower.
import { readFile } from 'node:fs/promises'
import { type Cluster, startTestCluster } from '@postern/local-stack/testing'
import { type Moved, describeMoved, movedParts } from './against.ts'
import { measureColdStart } from './cold-start.ts'
import { compare, ratio, targetOf, warmUp } from './compare.ts'
import { measureConsole } from './console.ts'
import { measureHotKeys } from './hot-keys.ts'
import { measureLatency } from './latency.ts'
import { measureList } from './list.ts'
import { measureFindingsScale } from './findings-scale.ts'
import { measureSync, measureSyncMemory } from './sync.ts'
import { measureUpload } from './upload.ts'
import { measureKeys } from './keys.ts'
import { measureManyKeys } from './many-keys.ts'
import { measureNeighbour } from './neighbour.ts'
import { measureParallelWrites } from './parallel-writes.ts'
import { measureParts } from './parts.ts'
import { plans } from './plans.ts'
import {
  startCaddy,
  startHttpProxy,
  startKeyedHttpProxy,
  startLeanestProxy,
  startNginxLua,
  startNginxProxy,
  startTraefik,
  startUpstream,
} from './peers/peers.ts'
import type { Peer } from './processes.ts'
import { type Comparison, type Figures, type Results, describeMachine, printResults, verdictOf } from './report.ts'
import { measureRevocation } from './revocation.ts'
import { loadNow, round } from './stats.ts'
import { type System, seedKeys, startSystem } from './system.ts'
import { failedVerdicts } from './verdicts.ts'
import { measureWebhooks } from './webhooks.ts'
import { readResults, writeResults } from '../../test/support/results.ts'
import { exitWithUsage, parseArguments } from '../arguments.ts'

const usage = `Usage: npm run bench -- [options]
  --quick          leave out the largest parts and write nothing (five minutes)
  --tiny           show that the bench works
  --only PARTS     measure these parts, such as list,upload
  --without PARTS  measure the other parts
  --against FILE   name the parts of a request that cost a fifth more than in FILE
verification/bench/README.md describes the parts.`

const { quick, tiny, only, without, against } = parseArguments(
  usage,
  {
    quick: { type: 'boolean', default: false },
    tiny: { type: 'boolean', default: false },
    only: { type: 'string' },
    without: { type: 'string' },
    against: { type: 'string' },
  },
  [],
).values

const isWhole = !quick && !tiny
const plan = plans[tiny ? 'tiny' : quick ? 'quick' : 'full']

const scalePlan = {
  tenants: 1000,
  few: 10_000,
  findings: 1_000_000,
  measuredTenant: 110_000,
  entriesPerFinding: 10,
  fillSeconds: 300,
  repeats: 60,
  listRounds: 25,
}

const path = '/api/v1/findings'
const connections = 64
const pace = 2000

const running: { stop(): Promise<unknown> }[] = []

function say(what: string): void {
  process.stderr.write(`bench: ${what}\n`)
}

interface Bench {
  readonly home: string
  readonly cluster: Cluster
  readonly upstream: Peer
  readonly system: System
}

async function startAll(): Promise<Bench> {
  const cluster = await startTestCluster()
  running.push(cluster)
  const { home } = cluster.cluster
  const upstream = await startUpstream(home)
  running.push(upstream)
  const system = await startSystem(4)
  running.push(system)
  return { home, cluster: cluster.cluster, upstream, system }
}

async function startPeers({ home, upstream, system }: Bench, key: string) {
  await system.setInRedis(`bench:ApiKey ${key}`, '1')
  const found = [
    await startNginxProxy(home, upstream),
    await startNginxLua(home, upstream, system.stack.redis.url),
    await startCaddy(home, upstream),
    await startTraefik(home, upstream),
    { peer: await startKeyedHttpProxy(upstream, key) },
    { peer: await startLeanestProxy(upstream) },
  ]
  const peers = found.flatMap((one) => ('peer' in one ? one.peer : []))
  running.push(...peers)
  return { peers, leftOut: found.flatMap((one) => ('leftOut' in one ? one.leftOut : [])) }
}

const yardstickNames = ['@fastify/http-proxy, bare', '@fastify/http-proxy, bare, again'] as const

async function startYardsticks({ upstream }: Bench): Promise<[Peer, Peer]> {
  const [first, second] = yardstickNames
  const started: [Peer, Peer] = [await startHttpProxy(first, upstream), await startHttpProxy(second, upstream)]
  running.push(...started)
  return started
}

async function stopPeers(peers: readonly Peer[]): Promise<void> {
  for (const peer of peers) await peer.stop()
}

async function measureComparison(bench: Bench): Promise<Comparison> {
  const { system, upstream } = bench
  const keys = await seedKeys(system, 1)
  const startGateway = async () => {
    const pid = await system.restartGateway({ POSTERN_FINDINGS_URL: upstream.url })
    return { name: 'gateway', url: system.stack.gateways[0] ?? '', pid }
  }
  const options = { path, keys, connections, seconds: plan.seconds, warmUpSeconds: plan.warmUpSeconds }
  const [one, subject, other] = await compare(
    async () => {
      const gateway = await startGateway()
      const [first, second] = await startYardsticks(bench)
      return {
        targets: [targetOf(first), gateway, targetOf(second)],
        stop: async () => await stopPeers([first, second]),
      }
    },
    { ...options, starts: plan.starts, rounds: plan.rounds },
  )
  if (subject === undefined || one === undefined || other === undefined) throw new Error('nothing was compared')
  const yardstick = ratio(subject, [one, other], one.name)
  const sameAgainstSame = ratio(one, [other], other.name)

  const gateway = await startGateway()
  const { peers, leftOut } = await startPeers(bench, keys.first)
  const [besideOthers, ...others] = await compare(
    async () => ({ targets: [gateway, ...peers.map(targetOf)], stop: async () => undefined }),
    { ...options, starts: 1, rounds: 2 * plan.starts },
  )
  if (besideOthers === undefined) throw new Error('nothing was compared')

  const yardsticks = await startYardsticks(bench)
  await warmUp(yardsticks.map(targetOf), options)
  const ways = await measureLatency([{ name: 'direct', url: upstream.url }, gateway, ...yardsticks, ...peers], {
    path,
    keys,
    rate: pace,
    connections,
    rounds: 3,
    seconds: plan.pacedSeconds,
  })
  await stopPeers([...yardsticks, ...peers])
  return {
    leftOut,
    connections,
    proxies: [one, subject, other, ...others],
    sameAgainstSame,
    gatewayAgainst: [yardstick, ...others.map((measured) => ratio(besideOthers, [measured], measured.name))],
    verdict: verdictOf(yardstick, sameAgainstSame),
    latency: { requestsPerSecond: pace, ways },
  }
}

/** Many findings would affect the others. */
const measurements: { readonly [Part in keyof Figures]: (bench: Bench) => Promise<Figures[Part]> } = {
  revocation: async ({ system }) => await measureRevocation(system, plan.revocations),
  gateway: measureComparison,
  parts: async ({ system, upstream }) =>
    await measureParts(system, { upstream, connections, rounds: plan.partsRounds, seconds: plan.seconds }),
  'cold-start': async ({ system, upstream: { url } }) =>
    await measureColdStart(system, {
      path,
      upstream: url,
      keys: plan.coldKeys,
      together: 8,
      connections,
      seconds: plan.coldSeconds,
    }),
  'hot-keys': async ({ upstream: { url } }) =>
    await measureHotKeys({
      ...plan.hot,
      path,
      upstream: url,
      connections,
      warmUpSeconds: plan.warmUpSeconds,
    }),
  'many-keys': async ({ system, upstream: { url } }) =>
    await measureManyKeys(system, {
      path,
      upstream: url,
      counts: plan.keyCounts,
      connections,
      rounds: 3,
      seconds: plan.seconds,
      fillSeconds: plan.fillSeconds,
    }),
  keys: async ({ system }) => await measureKeys(system, { keys: tiny ? 1000 : 100_000, rounds: isWhole ? 100 : 30 }),
  list: async ({ system }) => await measureList(system, { rows: 2000, repeats: 100, rounds: isWhole ? 25 : 3 }),
  upload: async ({ system, home }) =>
    await measureUpload(system, { folder: home, mebibytes: isWhole ? 1024 : 64, rounds: 3 }),
  sync: async ({ system }) => await measureSync(system, { rows: isWhole ? 100_000 : 10_000, rounds: isWhole ? 3 : 1 }),
  'sync-memory': async ({ system }) => await measureSyncMemory(system, [10_000, 100_000, 1_000_000]),
  console: async () => await measureConsole({ rounds: isWhole ? 9 : 3 }),
  'parallel-writes': async ({ system, cluster }) =>
    await measureParallelWrites(system, cluster, {
      clients: 16,
      seconds: isWhole ? 5 : 2,
      rounds: isWhole ? 5 : 2,
      standbyMs: 80,
    }),
  neighbour: async ({ system }) => await measureNeighbour(system, { findings: 955, seconds: isWhole ? 20 : 8 }),
  webhooks: async ({ system }) =>
    await measureWebhooks(system, { events: isWhole ? 10_000 : 200, endpoints: 10, perSecond: 50 }),
  'many-findings': async ({ system }) => await measureFindingsScale(system, scalePlan),
}

const names = Object.keys(measurements)

function isPart(name: string): name is keyof Figures {
  return names.includes(name)
}

function parseParts(list: string): (keyof Figures)[] {
  return list
    .split(',')
    .map((name) =>
      isPart(name) ? name : exitWithUsage(`There is no part ${name}. The parts are ${names.join(', ')}.`, usage),
    )
}

function chooseParts(): (keyof Figures)[] {
  const others: (keyof Figures)[] = isWhole ? [] : ['many-findings', 'sync-memory']
  const omitted = without === undefined ? others : parseParts(without)
  return only === undefined ? names.filter(isPart).filter((name) => !omitted.includes(name)) : parseParts(only)
}

async function measureInto(results: Results, part: keyof Figures, bench: Bench): Promise<void> {
  say(part)
  const [measuredAt, startedAt, loadBefore] = [new Date().toISOString(), performance.now(), loadNow()]
  const figures = await measurements[part](bench)
  const minutes = round((performance.now() - startedAt) / 60_000, 1)
  Object.assign(results.parts, { [part]: { measuredAt, minutes, loadBefore, figures } })
}

async function stopAll(): Promise<void> {
  for (const part of running.splice(0).toReversed()) await part.stop()
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void stopAll().finally(() => process.exit(1))
  })
}

async function write(results: Results): Promise<void> {
  const before: Results = JSON.parse((await readResults('bench')) ?? '{"parts":{}}')
  await writeResults('bench', { machine: results.machine, parts: { ...before.parts, ...results.parts } })
}

async function readFormer(file: string): Promise<Results> {
  const former = await readFile(file, 'utf8').then(
    (text): Results => JSON.parse(text),
    () => exitWithUsage(`${file} cannot be read.`, usage),
  )
  if (former.parts.parts !== undefined) return former
  return exitWithUsage(`${file} has no figures of the part "parts". Measure it there first.`, usage)
}

function whatMoved(former: Results | undefined, results: Results): Moved[] | undefined {
  const [was, is] = [former?.parts.parts?.figures, results.parts.parts?.figures]
  return was === undefined || is === undefined ? undefined : movedParts(was, is)
}

try {
  const parts = chooseParts()
  if (against !== undefined && !parts.includes('parts')) exitWithUsage('--against needs the part "parts".', usage)
  const former = against === undefined ? undefined : await readFormer(against)
  const results: Results = { machine: describeMachine(), parts: {} }
  say('starting everything')
  const bench = await startAll()
  for (const part of parts) {
    await measureInto(results, part, bench)
    // A failure of a later part loses nothing.
    if (isWhole) await write(results)
  }
  printResults(results)
  const moved = whatMoved(former, results)
  if (moved !== undefined) for (const line of describeMoved(moved)) console.log(`  ${line}`)
  const failed = failedVerdicts(results, moved ?? [])
  for (const line of failed) console.log(`FAILED ${line}`)
  if (failed.length > 0) process.exitCode = 1
} finally {
  await stopAll()
}
