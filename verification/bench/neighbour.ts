import { connect } from 'node:net'
import { keyOf } from './key-set.ts'
import { type LoadResult, runOwn } from './load.ts'
import { round } from './stats.ts'
import { type System, seedKeys, seedTenants } from './system.ts'

export interface Neighbour {
  readonly attack: 'none' | 'pipelined and unread' | 'parallel and read'
  readonly p50: number
  readonly p99: number
  readonly ratio: number
  readonly requests: number
  readonly failures: number
}

const ratePerSecond = 50
const pipelined = 600
const attackers = 190
const largePage = '/api/v1/findings?limit=1000'
const smallPage = '/api/v1/findings?limit=50'

/**
 * One tenant has `findings` findings of 50 KB, another 50 short ones, whose lists are read while the first requests
 * large pages.
 */
export async function measureNeighbour(
  system: System,
  { findings, seconds }: { readonly findings: number; readonly seconds: number },
): Promise<Neighbour[]> {
  const [large = '', small = ''] = await seedTenants(system, 2)
  await fill(system, { tenantId: large, count: findings, text: 'x'.repeat(50_000) })
  await fill(system, { tenantId: small, count: 50, text: 'No recertification since January.' })
  const attacking = await seedKeys(system, 1, [large])
  const reading = await seedKeys(system, 1, [small])
  const gateway = system.stack.gateways[0] ?? ''
  const read = async (during: number): Promise<LoadResult> =>
    await runOwn({
      url: gateway + smallPage,
      connections: 8,
      seconds: during,
      rate: ratePerSecond,
      keys: reading,
      mayFail: 1,
    })
  await read(2)
  const quiet = await read(seconds)
  const unread = pipelineWithoutReading(gateway, keyOf(attacking.prefix, 0))
  const pipelinedRead = await read(seconds)
  unread.stop()
  const recovered = await read(seconds)
  const [parallelRead] = await Promise.all([
    read(seconds),
    runOwn({ url: gateway + largePage, connections: attackers, seconds, keys: attacking, mayFail: 1 }),
  ])
  const row = (attack: Neighbour['attack'], { p50, p99, requests, failures }: LoadResult, before: LoadResult) => ({
    attack,
    p50: round(p50),
    p99: round(p99),
    ratio: round(p99 / before.p99),
    requests,
    failures,
  })
  return [
    row('none', quiet, quiet),
    row('pipelined and unread', pipelinedRead, quiet),
    row('parallel and read', parallelRead, recovered),
  ]
}

async function fill(
  system: System,
  { tenantId, count, text }: { readonly tenantId: string; readonly count: number; readonly text: string },
): Promise<void> {
  const findings = system.stack.caller('findings')
  const scopes = ['read:findings', 'write:findings']
  const body = { title: 'Access is not recertified', condition: text, severity: 'low' }
  let left = count
  const client = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      const { status } = await findings.call({ tenantId, scopes }, 'POST', '/api/v1/findings', { body })
      if (status !== 201) throw new Error(`a finding was answered with ${status}`)
    }
  }
  await Promise.all(Array.from({ length: 4 }, client))
}

function pipelineWithoutReading(gateway: string, key: string): { stop(): void } {
  const { hostname, port } = new URL(gateway)
  const request = `GET ${largePage} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: ApiKey ${key}\r\n\r\n`
  let isStopped = false
  const open = () => {
    const socket = connect(Number(port), hostname, () => socket.write(request.repeat(pipelined)))
    socket.pause()
    socket.on('error', () => undefined)
    socket.on('close', () => {
      if (!isStopped) current = open()
    })
    return socket
  }
  let current = open()
  return {
    stop: () => {
      isStopped = true
      current.destroy()
    },
  }
}
