import type { TestStack } from '@postern/local-stack/testing'
import { type Churn, prepareChurn } from '../../test/support/churn.ts'
import { type Operation, findViolations, findWrongWrites } from '../../test/support/promises.ts'
import { type Traffic, startTraffic } from '../../test/support/traffic.ts'
import { type Writes, readWrites } from '../../test/support/writes.ts'
import { type Failure, type Stall, excuseStalls } from './stalls.ts'
import { type FaultyClients, brokenUpload, startFaultyClients } from './faulty-clients.ts'
import { type Visits, startVisits } from './visits.ts'

const sequence: readonly Operation[] = [
  'whoami',
  'list',
  'entities',
  'create',
  'connectors',
  'upload',
  'whoami',
  'push',
]
const scopes = ['read:findings', 'write:findings', 'read:universe', 'write:evidence', 'admin:sync'] as const

export interface LoadReport {
  readonly requests: number
  readonly byStatus: Readonly<Record<string, number>>
  readonly acceptedWrites: number
  readonly keysMade: number
  readonly revocations: number
  readonly refusedAsRevoked: number
  readonly faultyRequests: Readonly<Record<string, number>>
  readonly visits: number
  readonly faults: readonly string[]
  /** 503 responses during or right after a stall of the host. */
  readonly ofStalls: readonly string[]
}

export interface MixedLoad {
  finish(): Promise<LoadReport>
}

/** Starts requests, key changes, invalid requests, aborted clients, and people at the console. */
export async function startMixedLoad(
  stack: TestStack,
  perSecond: number,
  stalls: readonly Stall[],
): Promise<MixedLoad> {
  const { gateways } = stack
  const own = await stack.createTenant('harbourline')
  await stack.nameTenants({ harbourline: own })
  const { key } = await stack.createKey(own, { scopes: ['*'] })
  const { key: narrow } = await stack.createKey(own, { scopes: ['read:universe'] })
  const traffic = startTraffic({ gateways, perSecond, sequence })
  const churn = await prepareChurn(stack, traffic, { scopes, restMs: 1500 })
  await churn.start()
  const faultyClients = startFaultyClients({ gateways, key, narrow, everyMs: 500 })
  const visits = startVisits(stack.consoleUrl, 4000)
  return {
    finish: async () => {
      await Promise.all([visits.stop(), faultyClients.stop()])
      const unfinished = await churn.stop().then(
        () => [],
        (error: unknown) => [String(error)],
      )
      await traffic.stop()
      const report = reportOf({ traffic, churn, faultyClients, visits, stalls }, await readWrites(stack))
      return { ...report, faults: [...unfinished, ...report.faults] }
    },
  }
}

interface Parts {
  readonly traffic: Traffic
  readonly churn: Churn
  readonly faultyClients: FaultyClients
  readonly visits: Visits
  readonly stalls: readonly Stall[]
}

function reportOf({ traffic, churn, faultyClients, visits, stalls }: Parts, stored: Writes): LoadReport {
  const { requests } = traffic
  const { keys, changes } = churn
  const violations = [...findViolations({ requests, keys, changes }), ...findWrongWrites({ requests }, stored)]
  const failed = requests
    .filter(({ status }) => status === 0 || status >= 500)
    .map((request): Failure => ({ ...request, text: `failed: ${JSON.stringify(request)}` }))
  const judged = excuseStalls([...failed, ...faultyClients.failures, ...visits.failures], stalls, requests.length)
  const broken = [...stored.keys()].filter((name) => name.startsWith(brokenUpload))
  const byStatus = Object.groupBy(requests, ({ status, code }) => `${status} ${code ?? ''}`.trimEnd())
  return {
    requests: requests.length,
    byStatus: Object.fromEntries(Object.entries(byStatus).map(([status, of]) => [status, of?.length ?? 0])),
    acceptedWrites: requests.filter(({ externalId, status }) => externalId !== undefined && status === 201).length,
    keysMade: keys.length,
    revocations: churn.revocations.length,
    refusedAsRevoked: requests.filter(({ code }) => code === 'key_revoked').length,
    faultyRequests: faultyClients.done,
    visits: visits.count,
    faults: [
      ...violations.map(({ promised, request }) => `${promised}: ${JSON.stringify(request)}`),
      ...broken.map((name) => `a file that never came whole is stored: ${name}`),
      ...judged.faults,
    ],
    ofStalls: judged.ofStalls,
  }
}
