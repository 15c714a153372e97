// `npm run bench`: starts the whole system and its peers, measures them side by side, prints a table and writes
// bench/results.json. `--quick` takes under two minutes, for a look: fewer and shorter rounds, and nothing is written.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startTestCluster } from '@postern/local-stack/testing'
import { compare, ratio, targetOf } from './compare.ts'
import { measureConsole } from './console.ts'
import { measureLatency } from './latency.ts'
import { measureList } from './list.ts'
import { measureFindingsScale } from './findings-scale.ts'
import { measureUpload } from './upload.ts'
import { measureManyKeys } from './many-keys.ts'
import { startCaddy, startHttpProxy, startNginxLua, startNginxProxy, startUpstream } from './peers/peers.ts'
import type { Peer } from './processes.ts'
import { type Results, describeMachine, printResults, verdictOf } from './report.ts'
import { measureRevocation } from './revocation.ts'
import { round } from './stats.ts'
import { type System, seedKeys, startSystem } from './system.ts'

const { quick, 'without-many-findings': withoutManyFindings } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, 'without-many-findings': { type: 'boolean', default: false } },
}).values

const plan = quick
  ? {
      rounds: 5,
      seconds: 2,
      warmUpSeconds: 4,
      pacedSeconds: 1,
      keyCounts: [1, 1000],
      fillSeconds: 10,
      revocations: { up: 10, down: 5 },
    }
  : {
      rounds: 15,
      seconds: 2,
      warmUpSeconds: 8,
      pacedSeconds: 4,
      keyCounts: [1, 1000, 1_000_000],
      fillSeconds: 100,
      revocations: { up: 100, down: 30 },
    }

const scalePlan = {
  tenants: 1000,
  few: 10_000,
  findings: 1_000_000,
  measuredTenant: 110_000,
  entriesPerFinding: 10,
  fillSeconds: 480,
  repeats: 60,
}

const path = '/api/v1/findings'
const connections = 64
const pace = 2000

/** What is to be stopped, last started first. */
const running: { stop(): Promise<unknown> }[] = []

function say(what: string): void {
  process.stderr.write(`bench: ${what}\n`)
}

async function startAll() {
  const cluster = await startTestCluster()
  running.push(cluster)
  const { home } = cluster.cluster
  const upstream = await startUpstream(home)
  running.push(upstream)
  const system = await startSystem(4)
  running.push(system)
  return { home, upstream, system }
}

/** The peers that this machine has, and what it lacks. */
async function startPeers(home: string, upstream: Peer, system: System, key: string) {
  const yardsticks = [
    await startHttpProxy('@fastify/http-proxy, bare', upstream),
    await startHttpProxy('@fastify/http-proxy, bare, again', upstream),
  ]
  await system.setInRedis(`bench:ApiKey ${key}`, '1')
  const others = [
    await startNginxProxy(home, upstream),
    await startNginxLua(home, upstream, system.stack.redis.url),
    await startCaddy(home, upstream),
  ]
  const peers = [...yardsticks, ...others.flatMap((found) => ('peer' in found ? found.peer : []))]
  running.push(...peers)
  return { peers, leftOut: others.flatMap((found) => ('leftOut' in found ? found.leftOut : [])) }
}

async function measureAll(): Promise<Results> {
  const startedAt = performance.now()
  const measuredAt = new Date().toISOString()
  const machine = describeMachine()
  say('starting everything')
  const { home, upstream, system } = await startAll()

  say('revocation')
  const revocation = await measureRevocation(system, plan.revocations)

  say('full load')
  const keys = await seedKeys(system, 1)
  const pid = await system.restartGateway({ POSTERN_FINDINGS_URL: upstream.url })
  const gateway = { name: 'gateway', url: system.stack.gateways[0] ?? '', pid }
  const { peers, leftOut } = await startPeers(home, upstream, system, keys.first)
  const { rounds, seconds, warmUpSeconds } = plan
  // The gateway between the two yardsticks: none of the pairs is nearer in time than another.
  const [first, second, ...others] = peers.map(targetOf)
  if (first === undefined || second === undefined) throw new Error('there is no yardstick')
  const proxies = await compare([first, gateway, second, ...others], {
    path,
    keys,
    connections,
    rounds,
    seconds,
    warmUpSeconds,
  })
  const [one, subject, other, ...rest] = proxies
  if (subject === undefined || one === undefined || other === undefined) throw new Error('nothing was compared')
  const yardstick = ratio(subject, [one, other], one.name)
  const sameAgainstSame = ratio(one, [other], other.name)

  say('latency')
  const ways = await measureLatency([{ name: 'direct', url: upstream.url }, gateway, ...peers], {
    path,
    keys,
    rate: pace,
    connections,
    rounds: 3,
    seconds: plan.pacedSeconds,
  })
  for (const peer of peers) await peer.stop()

  say('many keys')
  const manyKeys = await measureManyKeys(system, {
    path,
    upstream: upstream.url,
    counts: plan.keyCounts,
    connections,
    rounds: 3,
    seconds,
    fillSeconds: plan.fillSeconds,
  })

  say('a list')
  const list = await measureList(system, { rows: 2000, repeats: quick ? 100 : 500, rounds: 3 })

  say('a large upload')
  const upload = await measureUpload(system, { folder: home, mebibytes: quick ? 64 : 1024, rounds: 3 })

  say('the console')
  const consoleSpeed = await measureConsole({ rounds: quick ? 3 : 9 })

  say('many findings')
  // Last: what is put into the database would be in the way of everything else.
  const findingsScale = quick || withoutManyFindings ? undefined : await measureFindingsScale(system, scalePlan)

  return {
    measuredAt,
    minutes: round((performance.now() - startedAt) / 60_000, 1),
    machine,
    leftOut: [
      ...leftOut,
      ...(quick ? ['1,000,000 keys, in a quick run'] : []),
      ...(findingsScale === undefined ? ['1,000,000 findings, as asked for'] : []),
    ],
    comparison: {
      connections,
      proxies,
      sameAgainstSame,
      gatewayAgainst: [yardstick, ...rest.map((measured) => ratio(subject, [measured], measured.name))],
      verdict: verdictOf(yardstick, sameAgainstSame),
    },
    latency: { requestsPerSecond: pace, ways },
    manyKeys,
    list,
    upload,
    consoleSpeed,
    ...(findingsScale === undefined ? {} : { findingsScale }),
    revocation,
  }
}

async function stopAll(): Promise<void> {
  for (const part of running.splice(0).toReversed()) await part.stop()
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void stopAll().finally(() => process.exit(1))
  })
}

try {
  const results = await measureAll()
  printResults(results)
  if (!quick) {
    const folder = join(import.meta.dirname, '..', '..', 'bench')
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'results.json'), `${JSON.stringify(results, undefined, 2)}\n`)
  }
} finally {
  await stopAll()
}
