import { expect, test } from 'vitest'
import { failedVerdicts } from './verdicts.ts'

const part = <T>(figures: T) => ({ measuredAt: '', minutes: 1, loadBefore: 0, figures })
const listOf = (ratio: number, jsonRatio: number, [busyRatio, busyJsonRatio] = [1.5, 1.5]) => ({
  rows: 1,
  throughEverything: 9,
  throughService: 9,
  sqlRows: 1,
  sqlJson: 1,
  ratio: 9,
  serviceRatio: 9,
  jsonRatio: 9,
  cpu: { service: 1, sqlRows: 1, sqlJson: 1, ratio, jsonRatio },
  busy: { service: 1, sqlRows: 1, sqlJson: 1, ratio: busyRatio ?? 0, jsonRatio: busyJsonRatio ?? 0 },
})
const uploadOf = (ratio: number) => ({ mebibytes: 1, evidence: 1, nginx: 1, nginxSynced: 1, ratio, syncedRatio: 1 })
const filled = { tenants: 1, findings: 1, logEntries: 1 }
const scaleOf = (deep: number, large: number) => ({
  few: filled,
  many: filled,
  fillSeconds: 1,
  firstOfFew: 1,
  first: 1,
  thousandth: 1,
  deep,
  large,
  list: listOf(1, 1),
})
const syncOf = (firstRatio: number, unchangedRatio: number) => ({
  rows: 1,
  mebibytes: 1,
  copySeconds: 1,
  storedSeconds: 1,
  storedRatio: 1,
  firstSeconds: 1,
  firstRatio,
  unchangedSeconds: 1,
  unchangedRatio,
  fewChangedSeconds: 1,
  fewChangedRatio: 1,
})
const spread = (p99: number) => ({ p50: 1, p99, max: p99 })
const revocationOf = (p99: number) =>
  [{ gateways: 4, keys: 1, redis: 'up', revocations: 1, success: spread(p99), firstRefusal: spread(1) }] as const
const writesOf = (ratio: number, failures: number) => [
  { clients: 1, standbyMs: 80, ofOneTenant: 1, ofManyTenants: 1, ratio, failures },
]
const neighbourOf = (failures: number) => [
  { attack: 'parallel and read', p50: 1, p99: 9, ratio: 9, requests: 9, failures } as const,
]
const webhooksOf = (p99: number, lateMiB: number) => ({
  events: 1,
  endpoints: 10,
  perSecond: 1,
  healthyDeliveries: 8,
  p50: 1,
  p99,
  earlyMiB: 200,
  lateMiB,
})
const memoryOf = (...peaks: number[]) => peaks.map((peakMiB, at) => ({ rows: at, peakMiB }))

test.each([
  ['list', { list: part(listOf(1.5, 1.5)) }, { list: part(listOf(1.5, 1.5, [1.51, 1.5])) }],
  ['list', { list: part(listOf(1.5, 1.5)) }, { list: part(listOf(1.5, 1.5, [1.5, 1.51])) }],
  ['list', { list: part(listOf(1.5, 1.5)) }, { list: part(listOf(1.51, 1.5)) }],
  ['list', { list: part(listOf(1.5, 1.5)) }, { list: part(listOf(1.5, 1.51)) }],
  [
    'many-findings',
    { 'many-findings': part({ ...scaleOf(1, 1), list: listOf(1, 1) }) },
    { 'many-findings': part({ ...scaleOf(1, 1), list: listOf(1, 1.6) }) },
  ],
  ['upload', { upload: part(uploadOf(0.6)) }, { upload: part(uploadOf(0.59)) }],
  ['many-findings', { 'many-findings': part(scaleOf(1.5, 1.3)) }, { 'many-findings': part(scaleOf(1.6, 1.3)) }],
  ['many-findings', { 'many-findings': part(scaleOf(1.5, 1.3)) }, { 'many-findings': part(scaleOf(1, 1.4)) }],
  ['sync', { sync: part(syncOf(8, 3)) }, { sync: part(syncOf(8.1, 3)) }],
  ['sync', { sync: part(syncOf(8, 3)) }, { sync: part(syncOf(8, 3.1)) }],
  ['sync-memory', { 'sync-memory': part(memoryOf(200, 264, 136)) }, { 'sync-memory': part(memoryOf(200, 265)) }],
  ['webhooks', { webhooks: part(webhooksOf(5, 264)) }, { webhooks: part(webhooksOf(5.1, 264)) }],
  ['webhooks', { webhooks: part(webhooksOf(5, 264)) }, { webhooks: part(webhooksOf(5, 265)) }],
  ['parallel-writes', { 'parallel-writes': part(writesOf(0.7, 0)) }, { 'parallel-writes': part(writesOf(0.69, 0)) }],
  ['parallel-writes', { 'parallel-writes': part(writesOf(0.7, 0)) }, { 'parallel-writes': part(writesOf(1, 1)) }],
  ['neighbour', { neighbour: part(neighbourOf(0)) }, { neighbour: part(neighbourOf(1)) }],
  ['revocation', { revocation: part(revocationOf(1000)) }, { revocation: part(revocationOf(1001)) }],
])('the bench fails if %s is beyond its bound', (name, good, bad) => {
  expect(failedVerdicts({ parts: good }, [])).toEqual([])
  expect(failedVerdicts({ parts: bad }, [])).toEqual([expect.stringMatching(new RegExp(`^${name}: .*: NO \\(`))])
})
