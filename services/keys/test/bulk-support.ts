import { bulkPreviewSchema, bulkReceiptSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { expect } from 'vitest'
import { type KeysUnderTest, newKey, path, sql } from './service.ts'

/** What tests do with several keys at once. */
export function bulkActions(service: () => KeysUnderTest) {
  async function preview(admin: Principal, body: object): Promise<CallAnswer> {
    return await service().call(admin, 'POST', `${path}/bulk/preview`, { body })
  }

  async function change(admin: Principal, body: object): Promise<CallAnswer> {
    return await service().call(admin, 'POST', `${path}/bulk`, { body })
  }

  async function previewed(admin: Principal, body: object) {
    const answer = await preview(admin, body)
    expect(answer.status, answer.text).toBe(200)
    return bulkPreviewSchema.parse(answer.json)
  }

  async function changed(admin: Principal, body: object) {
    const answer = await change(admin, body)
    expect(answer.status, answer.text).toBe(200)
    return bulkReceiptSchema.parse(answer.json)
  }

  async function someKeys(admin: Principal, count: number, given: object = {}) {
    const keys = await Promise.all(Array.from({ length: count }, async () => await newKey(service(), admin, given)))
    return { keys, ids: keys.map(({ id }) => id) }
  }

  /** Inserts keys faster than the API creates them. */
  async function insertKeys({ tenantId }: Principal, count: number): Promise<string[]> {
    const insert = sql(
      `insert into keys.api_key (tenant_id, hash, last_four, label, scopes, allowed_addresses, created_by_type,
                                 created_by_id, created_by_label, created_at, expires_at)
       select $1::uuid, sha256(convert_to($1::uuid::text || n, 'UTF8')), 'abcd', 'Key ' || n, array['read:findings'], '{}', 'user', 'ada',
              'Ada Lund', date_trunc('milliseconds', clock_timestamp()), date_trunc('milliseconds', clock_timestamp()) + interval '30 days'
         from generate_series(1, $2::int4) as n
       returning id`,
      tenantId,
      count,
    )
    const rows = await service().asSuperuser.system(async (tx) => await tx.query<{ id: string }>(insert))
    return rows.map(({ id }) => id)
  }

  return { preview, change, previewed, changed, someKeys, insertKeys }
}
