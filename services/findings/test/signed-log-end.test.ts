/**
 * @promise Data: Changes to the remediation log are always detected.
 * @alsoShownBy services/findings/test/tracker-log.test.ts, services/findings/test/concurrent-writes.test.ts,
 * packages/log-chain/src/verify-export.test.ts
 */

import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findingSchema, logCheckpointSchema, logEntrySchema, problemSchema } from '@postern/contracts'
import { verifyExport } from '@postern/log-chain'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type CheckpointSigner, openCheckpointSigner } from '../src/tracker-log/sign.ts'
import {
  type FindingsUnderTest,
  type Principal,
  checkpointKey,
  findingBody,
  newTenant,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
/** Signs as the service does. */
let checkpoints: CheckpointSigner
beforeAll(async () => {
  service = await startFindings()
  checkpoints = await openCheckpointSigner([createPrivateKey(checkpointKey)])
})
afterAll(async () => await service.close())

const all = '/api/v1/remediation-log'
const readLog = z.array(logEntrySchema)
const readKeys = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) })

async function aFinding(tenant: Principal) {
  return findingSchema.parse((await service.call(tenant, 'POST', path, { body: findingBody() })).json)
}

async function note(tenant: Principal, id: string) {
  return await service.call(tenant, 'POST', `${path}/${id}/log`, { body: { body: 'Called the owner.' } })
}

async function get(tenant: Principal, target: string) {
  return (await service.call(tenant, 'GET', target)).json
}

async function keys() {
  return readKeys.parse(await get(newTenant([]), `${all}/keys`))
}

/** Moves the log to another day, including its signatures. */
async function pastMidnight(tenant: Principal, day: string) {
  const recorded_at = `${day}T10:00:00.000Z`
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    const text = 'update findings.tracker_log set recorded_at = $2::timestamptz where tenant_id = $1'
    await tx.execute({ text, values: [tenant.tenantId, recorded_at] })
    const [end] = await tx.query<{ position: number; root: string }>({
      text: 'select position::integer, root from findings.log_end where tenant_id = $1',
      values: [tenant.tenantId],
    })
    if (end === undefined) throw new Error('the end of the log is not signed')
    const jws = await checkpoints.sign({ tenant: tenant.tenantId, ...end, day, signed_at: recorded_at })
    const moved = 'update findings.log_end set day = $2::date, jws = $3 where tenant_id = $1'
    await tx.execute({ text: moved, values: [tenant.tenantId, day, jws] })
  })
}

test('the last write of a tenant also signs the checkpoint of its day', async () => {
  const tenant = newTenant()
  const { id } = await aFinding(tenant)
  await note(tenant, id)
  const text = 'select position::integer, root, day, jws from findings.log_end where tenant_id = $1'
  const ends = await service.asSuperuser.system(async (tx) =>
    tx.query<{ jws: string; day: string }>({ text, values: [tenant.tenantId] }),
  )
  const log = readLog.parse(await get(tenant, all))
  expect(ends).toMatchObject([{ position: 2, day: log[1]?.recorded_at.slice(0, 10) }])
  const report = await verifyExport(
    log.map((entry) => JSON.stringify(entry)),
    ends.map(({ jws }) => jws),
    await keys(),
  )
  expect(report).toMatchObject({ isIntact: true, checkpoints: [{ outcome: 'agrees' }] })
  const checkpoint = report.checkpoints[0]?.checkpoint
  expect(checkpoint?.position).toBe(2)
  expect(Date.parse(checkpoint?.signed_at ?? '')).toBeGreaterThanOrEqual(Date.parse(log[1]?.recorded_at ?? ''))
  // It becomes the checkpoint of the day.
  await pastMidnight(tenant, '2026-05-04')
  const sealed = logCheckpointSchema.parse(await get(tenant, `${all}/checkpoint?day=2026-05-04`))
  const signedThen = await verifyExport([], [sealed.jws], await keys())
  expect(signedThen.checkpoints[0]?.checkpoint).toMatchObject({
    day: '2026-05-04',
    signed_at: '2026-05-04T10:00:00.000Z',
  })
})

test.each([
  [
    'an entry and all behind it',
    'rewritten',
    `update findings.tracker_log set root = repeat('a', 64) where tenant_id = $1 and position = 2`,
  ],
  ['its end', 'cut off', 'delete from findings.tracker_log where tenant_id = $1 and position = 2'],
  [
    'an entry, and the signed end with it,',
    'rewritten',
    `with l as (update findings.tracker_log set root = repeat('a', 64) where tenant_id = $1 and position = 2)
      update findings.log_end set root = repeat('a', 64) where tenant_id = $1`,
  ],
  [
    'an entry, and the signed end by a key that nobody has,',
    'rewritten',
    `with l as (update findings.tracker_log set root = repeat('a', 64) where tenant_id = $1 and position = 2)
        update findings.log_end set root = repeat('a', 64), jws = 'eyJhbGciOiJFZERTQSIsImtpZCI6IngifQ.e30.AA' where tenant_id = $1`,
  ],
  ['the signature', 'made up', `update findings.log_end set jws = 'x.y.z' where tenant_id = $1`],
])('a log with %s %s outside of the service gets no checkpoint and no new entries', async (_of, _how, text) => {
  const tenant = newTenant()
  const { id } = await aFinding(tenant)
  await note(tenant, id)
  await pastMidnight(tenant, '2026-05-04')
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({ text, values: [tenant.tenantId] })
  })
  const before = readLog.parse(await get(tenant, all))
  for (const [method, target] of [
    ['GET', `${all}/checkpoint`],
    ['GET', `${all}/checkpoint?day=2026-05-04`],
    ['POST', `${path}/${id}/log`],
  ] as const) {
    const options = method === 'POST' ? { body: { body: 'Called the owner.' } } : {}
    const told = await doubted('contradicted')
    const answer = await service.call(tenant, method, target, options)
    expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([503, 'log_contradicted'])
    expect(await doubted('contradicted')).toBeGreaterThan(told)
  }
  const line = service.logs.find((log) => log.includes('"log_contradicted"') && log.includes(tenant.tenantId))
  expect(JSON.parse(line ?? '')).toMatchObject({ position: 2, day: '2026-05-04', level: 'error' })
  // The log can still be read and compared with stored checkpoints.
  expect(readLog.parse(await get(tenant, all))).toEqual(before)
  const signed = await service.asSuperuser.system(async (tx) => {
    const count = 'select from findings.log_checkpoint where tenant_id = $1'
    return await tx.query({ text: count, values: [tenant.tenantId] })
  })
  expect(signed).toEqual([])
  // The control: other tenants can write.
  const other = newTenant()
  expect((await note(other, (await aFinding(other)).id)).status).toBe(201)

  // The procedure of the runbook: print the signed end, then continue from the current log.
  const printed = await service.asSuperuser.system(async (tx) => {
    const rows: object[] = []
    for (const statement of wayOut(tenant.tenantId)) rows.push(...(await tx.query({ text: statement, values: [] })))
    return rows
  })
  expect(printed).toHaveLength(1)
  expect(printed[0]).toHaveProperty('found_root')
  expect((await note(tenant, id)).status).toBe(201)
  expect((await service.call(tenant, 'GET', `${all}/checkpoint`)).status).toBe(200)
  expect(readLog.parse(await get(tenant, all))).toHaveLength(before.length + 1)
})

test('checkpoints from before and after a manipulation contradict each other even after the log continues', async () => {
  const tenant = newTenant()
  const { id } = await aFinding(tenant)
  await note(tenant, id)
  const { jws } = logCheckpointSchema.parse(await get(tenant, `${all}/checkpoint`))
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    const text = `update findings.tracker_log set root = repeat('a', 64) where tenant_id = $1 and position = 2`
    await tx.execute({ text, values: [tenant.tenantId] })
    for (const statement of wayOut(tenant.tenantId)) await tx.query({ text: statement, values: [] })
  })
  expect((await note(tenant, id)).status).toBe(201)
  const now = logCheckpointSchema.parse(await get(tenant, `${all}/checkpoint`))
  const log = readLog.parse(await get(tenant, all)).map((entry) => JSON.stringify(entry))
  // Roots are computed from the entries, so here the newer checkpoint does not match.
  const { checkpoints: checked } = await verifyExport(log, [jws, now.jws], await keys())
  expect(checked.map(({ outcome }) => outcome)).toEqual(['agrees', 'contradicts'])
})

test.each([
  ['what the log is, and a day is over', '2026-05-04'],
  ['what the log is, on the same day', undefined],
])(
  'an end signed with a removed key that says %s does not block writes and is not used as a checkpoint',
  async (_what, day) => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    await note(tenant, id)
    if (day !== undefined) await pastMidnight(tenant, day)
    const old = await openCheckpointSigner([generateKeyPairSync('ed25519').privateKey])
    await signEndAs(tenant, old)
    const told = await doubted('unknown_key')
    expect((await note(tenant, id)).status).toBe(201)
    expect(await doubted('unknown_key')).toBeGreaterThan(told)
    const line = service.logs.find(
      (text) => text.includes('"log_end_of_unknown_key"') && text.includes(tenant.tenantId),
    )
    expect(JSON.parse(line ?? '')).toMatchObject({ position: 2, level: 'warn' })
    // The published key signs the day's checkpoint and the end again.
    const after = await doubted('unknown_key')
    const jws = await get(tenant, `${all}/checkpoint${day === undefined ? '' : `?day=${day}`}`)
    const log = readLog.parse(await get(tenant, all)).map((entry) => JSON.stringify(entry))
    const { checkpoints: checked } = await verifyExport(log, [logCheckpointSchema.parse(jws).jws], await keys())
    expect(checked.map(({ outcome }) => outcome)).toEqual(['agrees'])
    expect((await note(tenant, id)).status).toBe(201)
    expect(await doubted('unknown_key')).toBe(after)
  },
)

test('a signed end with an unknown key is rejected if it differs from the log', async () => {
  const tenant = newTenant()
  const { id } = await aFinding(tenant)
  await note(tenant, id)
  const stranger = await openCheckpointSigner([generateKeyPairSync('ed25519').privateKey])
  await signEndAs(tenant, stranger, { root: 'b'.repeat(64) })
  expect((await note(tenant, id)).status).toBe(503)
  await signEndAs(tenant, stranger, { tenant: crypto.randomUUID() })
  expect((await note(tenant, id)).status).toBe(503)
  await signEndAs(tenant, stranger)
  expect((await note(tenant, id)).status).toBe(201)
})

/** Replaces the signature of the end with one over the same checkpoint, except for the given members. */
async function signEndAs(tenant: Principal, signer: CheckpointSigner, given: object = {}) {
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    const [end] = await tx.query<{ position: number; root: string; day: string }>({
      text: 'select position::integer, root, day from findings.log_end where tenant_id = $1',
      values: [tenant.tenantId],
    })
    if (end === undefined) throw new Error('the end of the log is not signed')
    const said = { tenant: tenant.tenantId, ...end, signed_at: '2026-05-04T10:00:00.000Z', ...given }
    const text = 'update findings.log_end set jws = $2 where tenant_id = $1'
    await tx.execute({ text, values: [tenant.tenantId, await signer.sign(said)] })
  })
}

/** Returns how often the service counted an untrusted end. */
async function doubted(doubt: string): Promise<number> {
  const metrics = await (await fetch(`${service.url}/internal/metrics`)).text()
  const lines = metrics.split('\n').filter((line) => line.startsWith('postern_findings_log_ends_doubted_total{'))
  return Number(lines.find((line) => line.includes(`doubt="${doubt}"`))?.split(' ')[1])
}

/** The SQL of the runbook, without its transaction. */
function wayOut(tenantId: string): string[] {
  const runbook = readFileSync(join(import.meta.dirname, '../../../docs/operations/runbook.md'), 'utf8')
  const [, section = ''] = runbook.split('\n## A remediation log that was changed\n')
  const [, sql = ''] = /```sql\nbegin;\n(.*?)commit;\n```/s.exec(section) ?? []
  return sql
    .replaceAll('TENANT', tenantId)
    .split(';\n')
    .filter((text) => text !== '')
}
