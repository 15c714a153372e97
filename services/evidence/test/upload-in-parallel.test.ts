import { randomUUID } from 'node:crypto'
import { receiptSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { withNumberSeries, openTenantDb } from '@postern/tenant-db'
import { makeEnvironment, startEvidence, upload, uploader } from './support.ts'

// Above what the tests keep, so that every upload asks for room.
const quotaBytes = 100_000
/** The time-out of the service for its database, and of the test for background work. */
const waitMs = 60_000

let service: Awaited<ReturnType<typeof startEvidence>>
let closeDb: () => Promise<void>
beforeAll(async () => {
  const environment = await makeEnvironment()
  // With more patience than the product: a commit waits here for as long as other uploads take.
  const db = openTenantDb({
    connectionString: environment.database.url('evidence'),
    maxConnections: 16,
    connectTimeoutMs: waitMs,
    queryTimeoutMs: waitMs,
    applicationName: 'evidence-test',
  })
  const quota = { POSTERN_EVIDENCE_TENANT_QUOTA_BYTES: String(quotaBytes) }
  service = await startEvidence(quota, { db: withNumberSeries(db) }, environment)
  closeDb = async () => await db.close()
  // The commit of a file or resumable upload with this name waits, with all locks of its transaction, for whoever holds the lock.
  await service.rows(`
    create function evidence.hold_commit() returns trigger language plpgsql as $$
    begin
      perform pg_advisory_xact_lock(hashtextextended('slow commit', 0));
      return null;
    end $$`)
  await service.rows(`
    create constraint trigger hold_commit_of_purge after insert on evidence.file_decision deferrable initially deferred
      for each row when (new.reason = 'slow') execute function evidence.hold_commit()`)
  await service.rows(`
    create constraint trigger hold_commit_of_turn after update on evidence.upload deferrable initially deferred
      for each row when (new.file_name = 'lapsed.csv' and new.turn > old.turn) execute function evidence.hold_commit()`)
  for (const table of ['file', 'upload']) {
    await service.rows(`
      create constraint trigger hold_commit after insert on evidence.${table} deferrable initially deferred
        for each row when (new.file_name = 'slow.csv') execute function evidence.hold_commit()`)
  }
})
afterAll(async () => {
  await closeDb()
  await service.close()
})

const tus = { 'tus-resumable': '1.0.0' }
const headers = { 'content-type': 'text/csv' }
const send = async (principal: Principal, body: string, name = 'a.csv') =>
  await upload(service.caller, principal, { body, headers }, name)
const begin = async (principal: Principal, name: string, bytes: number) =>
  await service.caller.call(principal, 'POST', '/api/v1/evidence/uploads', {
    headers: {
      ...tus,
      'upload-length': String(bytes),
      'upload-metadata': `filename ${Buffer.from(name).toString('base64')}`,
    },
  })

/** The tenant's usage without expired reservations. */
const kept = async ({ tenantId }: Principal) =>
  await service.rows(
    `select usage.bytes - coalesce(sum(lapsed.bytes), 0) as bytes, usage.files - coalesce(sum(lapsed.files), 0) as files
     from evidence.tenant_usage as usage
     left join evidence.usage_reservation as lapsed on lapsed.tenant_id = usage.tenant_id and lapsed.expires_at <= now()
     where usage.tenant_id = $1
     group by usage.bytes, usage.files`,
    [tenantId],
  )

/** Runs `work` while a commit waits, and gives what that commit was answered with in the end. */
async function whileCommitWaits<T>(slow: () => Promise<T>, work: () => Promise<void>): Promise<T> {
  const answer = Promise.withResolvers<T>()
  await service.holdLock('slow commit', async (waiters) => {
    slow().then(answer.resolve, answer.reject)
    await expect.poll(waiters, { timeout: waitMs }).toBe(1)
    await work()
  })
  return await answer.promise
}

describe('uploads of one tenant', () => {
  test('do not wait for a slow commit of another one, and get unique numbers', async () => {
    const principal = uploader()
    const references: string[] = []
    const slow = await whileCommitWaits(
      async () => await send(principal, 'slow', 'slow.csv'),
      async () => {
        const others = await Promise.all(
          Array.from({ length: 6 }, async (_none, at) => await send(principal, `quick ${at}`)),
        )
        expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 201))
        references.push(...others.map(({ json }) => receiptSchema.parse(json).reference))
        expect((await begin(principal, 'other.csv', 10)).status).toBe(201)
      },
    )
    expect(slow.status).toBe(201)
    references.push(receiptSchema.parse(slow.json).reference)
    expect(new Set(references).size).toBe(7)
    const year = new Date().getUTCFullYear()
    expect(references.toSorted()).toEqual(Array.from({ length: 7 }, (_none, at) => `EV-${year}-00000${at + 1}`))
    expect(await kept(principal)).toEqual([{ bytes: String(4 + 6 * 7), files: '7' }])
  })

  test('do not wait for a slow creation of a resumable upload, and cannot use its reservation', async () => {
    const principal = uploader()
    const slow = await whileCommitWaits(
      async () => await begin(principal, 'slow.csv', quotaBytes - 10),
      async () => {
        expect((await send(principal, 'a'.repeat(10))).status).toBe(201)
        expect((await send(principal, 'a')).status).toBe(413)
        expect((await begin(principal, 'other.csv', 1)).status).toBe(413)
      },
    )
    expect(slow.status).toBe(201)
    // The room is counted once, by the upload that has it now.
    expect((await begin(principal, 'other.csv', 1)).status).toBe(413)
    expect(
      (await service.caller.call(principal, 'DELETE', slow.headers['location'] ?? '', { headers: tus })).status,
    ).toBe(204)
    expect((await send(principal, 'b'.repeat(quotaBytes - 10))).status).toBe(201)
    expect((await send(principal, 'c')).status).toBe(413)
  })

  test('do not wait for a slow purge, which frees its quota', async () => {
    const principal = uploader()
    const purger: Principal = {
      ...principal,
      kind: 'user',
      scopes: ['read:findings', 'write:evidence'],
      roles: ['admin'],
    }
    const { id } = receiptSchema.parse((await send(principal, 'p'.repeat(quotaBytes - 4))).json)
    await service.rows('alter table evidence.file disable trigger file_never_changes')
    await service.rows(
      `update evidence.file set received_at = now() - interval '3 years', retention_until = current_date - 1
      where tenant_id = $1`,
      [principal.tenantId],
    )
    await service.rows('alter table evidence.file enable trigger file_never_changes')
    const slow = await whileCommitWaits(
      async () =>
        await service.caller.call(purger, 'POST', `/api/v1/evidence-files/${id}/purge`, { body: { reason: 'slow' } }),
      async () => {
        expect((await send(principal, '1234')).status).toBe(201)
        expect((await send(principal, '5')).status).toBe(413)
      },
    )
    expect(slow.status, slow.text).toBe(200)
    expect(await kept(principal)).toEqual([{ bytes: '4', files: '1' }])
    expect((await send(principal, 'r'.repeat(quotaBytes - 4))).status).toBe(201)
    expect((await send(principal, '5')).status).toBe(413)
  })

  test('do not wait for a slow commit of a lapsed resumable upload, and cannot use its reservation', async () => {
    const principal = uploader()
    const location = (await begin(principal, 'lapsed.csv', quotaBytes - 4)).headers['location'] ?? ''
    await service.rows(`update evidence.upload set created_at = now() - interval '61 minutes' where tenant_id = $1`, [
      principal.tenantId,
    ])
    const append = {
      body: 'a',
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
    }
    const slow = await whileCommitWaits(
      async () => await service.caller.call(principal, 'PATCH', location, append),
      async () => {
        expect((await send(principal, '1234')).status).toBe(201)
        expect((await send(principal, '5')).status).toBe(413)
      },
    )
    expect(slow.status, slow.text).toBe(204)
    expect((await send(principal, '5')).status).toBe(413)
    expect(await kept(principal)).toEqual([{ bytes: '4', files: '1' }])
  })

  test('release their quota if they fail, or ten minutes after their process died', async () => {
    const principal = uploader()
    const digest = { ...headers, 'content-digest': `sha-256=:${'A'.repeat(43)}=:` }
    expect((await upload(service.caller, principal, { body: 'wrong', headers: digest })).status).toBe(422)
    await service.rows(
      `with room as (insert into evidence.tenant_usage (tenant_id, bytes, files) values ($1, $2, 1)
         on conflict (tenant_id) do update set bytes = tenant_usage.bytes + $2, files = tenant_usage.files + 1)
       insert into evidence.usage_reservation (tenant_id, bytes, files, expires_at) values ($1, $2, 1, now() + interval '1 minute')`,
      [principal.tenantId, quotaBytes],
    )
    expect((await send(principal, 'a')).status).toBe(413)
    await service.rows('update evidence.usage_reservation set expires_at = now() where tenant_id = $1', [
      principal.tenantId,
    ])
    expect((await send(principal, 'a')).status).toBe(201)
    expect(await kept(principal)).toEqual([{ bytes: '1', files: '1' }])
    expect(
      await service.rows('select from evidence.usage_reservation where tenant_id = $1', [principal.tenantId]),
    ).toEqual([])
  })

  test('that arrive together never exceed the quota', async () => {
    const principal = uploader()
    const part = quotaBytes / 4
    const answers = await Promise.all(
      Array.from({ length: 12 }, async (_none, at) =>
        at % 2 === 0
          ? await send(principal, randomUUID().repeat(1000).slice(0, part))
          : await begin(principal, 'a.csv', part),
      ),
    )
    const statuses = answers.map(({ status }) => status).toSorted()
    expect(statuses).toEqual([...Array.from({ length: 4 }, () => 201), ...Array.from({ length: 8 }, () => 413)])
  })
})
