/**
 * @promise Tenants: Every table has row-level security, and no foreign key can point to another tenant.
 * @alsoShownBy packages/tenant-db/test/catalog-check.test.ts
 */

import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { checkCatalog } from '@postern/tenant-db'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const queueTable = 'the queue serves all tenants; a job holds the id of a run or a connector, and nothing of a tenant'

/** What stands outside of the tenants on purpose, and why it gives nobody another tenant's rows. */
const allowances = {
  tablesWithoutTenant: {
    'keys.gateway_lease': 'gateways serve all tenants; a row says what a gateway has applied, and nothing of a tenant',
    'keys.expired_scan': 'one time: up to when expired keys were looked for',
    'keys.github_report': 'hashes of reports that GitHub has signed; they name no tenant',
    'keys.revocation_seq': 'one number: where the log stands',
    'keys.route': 'the routes of the product, and the scopes that open them',
    'keys.usage_watch': 'one row: since when uses are counted',
    'queue.bam': queueTable,
    'queue.instance': 'the queue serves all tenants; a row says which process works, and nothing of a tenant',
    'queue.job': queueTable,
    'queue.job_common': queueTable,
    'queue.job_dependency': queueTable,
    'queue.queue': queueTable,
    'queue.queue_stats': queueTable,
    'queue.schedule': queueTable,
    'queue.subscription': queueTable,
    'queue.version': queueTable,
    'queue.warning': queueTable,
  },
  definerFunctions: {
    'evidence.blob_is_recorded(uuid,text)':
      'the sweep acts for no tenant; who asks hears yes or no, of any tenant and hash that he can name',
    'evidence.upload_is_open(uuid,uuid)': 'as for bytes, of any tenant and id that he can name',
    'keys.find_key_by_hash(bytea)':
      'the gateway does not know the tenant before it knows the key; a hash from the log gives a record too, and no value of a key',
    'keys.find_tenant(uuid)': 'status and limits of the tenant of a person who has signed in',
    'keys.find_tenant_id(text)': 'the id of a tenant by its slug, which the token of a person names',
    'keys.record_github_report(bytea)': 'accepts a report of GitHub once; a report may name keys of several tenants',
    'keys.revoke_leaked_keys(bytea[],jsonb[],text,text,text)':
      'whoever has the value of a key may report it, before its tenant is known; it only revokes',
    'keys.find_person(uuid,text,text)':
      'what the directory says of a person who has signed in; who asks hears one of three words, for any name that he knows',
    'keys.log_people()': 'a trigger that writes the number behind every change; nobody calls it',
    'keys.note_people()': 'a trigger that notes the rows of its statement; nobody calls it',
    'keys.mark_leavers()': 'a trigger that marks members of the tenant of the row; nobody calls it',
    'keys.last_key_change(bytea)': 'a number of the log, for a hash',
    'keys.last_tenant_change(uuid)': 'a number of the log',
    'keys.follow_log(bigint,text,integer)': 'gateways apply the log of all tenants; it holds hashes and ids',
    'keys.log_change()': 'a trigger that writes the number behind every change; nobody calls it',
    'keys.grant_lease(uuid,text,bigint,text,integer)': 'leases belong to gateways',
    'keys.release_lease(uuid)': 'leases belong to gateways',
    'keys.read_leases()': 'leases belong to gateways',
    'keys.read_grants()': 'leases belong to gateways',
    'keys.forget_leases(uuid[],uuid[])': 'leases belong to gateways',
    'keys.record_uses(jsonb)': 'a gateway reports for all tenants at once; each row must match key and tenant',
    'keys.record_denials(jsonb)': 'as uses: refusals of any key whose ids are known can be made up',
    'keys.record_refusals(jsonb)': 'as uses: the last refusal of any key whose ids are known can be made up',
    'keys.record_people(jsonb)':
      'a gateway reports for all tenants at once; the tenant must be there, and nobody is let in by it',
    'keys.note_pending_denials(integer)': 'housekeeping: gives a number',
    'keys.count_uses(jsonb)': 'a gateway reports for all tenants at once; each row must match key and tenant',
    'keys.count_addresses(jsonb)': 'as uses',
    'keys.count_refusals(jsonb)': 'as uses: refusals of any key whose ids are known can be made up',
    'keys.prune_refusals(integer,integer)': 'housekeeping: gives a number',
    'keys.prune_log(bigint,numeric,integer)': 'housekeeping: gives numbers',
    'keys.prune_uses(integer,integer)': 'housekeeping: gives a number',
    'keys.audit_key_events()': 'a trigger that writes the audit event of its row; nobody calls it',
    'keys.audit_key_expiry()': 'a trigger that writes the audit event of its row; nobody calls it',
    'keys.audit_policy_event()': 'a trigger that writes the audit event of its row; nobody calls it',
    'keys.audit_tenant_event()': 'a trigger that writes the audit event of its row; nobody calls it',
    'keys.set_audit_retention()': 'a trigger that copies a rule of its row; nobody calls it',
    'keys.note_expired(integer)': 'housekeeping: gives a number',
    'keys.note_expiring()': 'housekeeping: gives nothing',
    'keys.set_routes(jsonb)': 'writes the routes of the release, which concern no tenant',
    'keys.watch_usage()': 'housekeeping: gives nothing',
    'keys.note_idle()': 'housekeeping: gives nothing',
    'keys.note_late_usage()': 'as leases: gives nothing',
    'keys.revoke_idle_keys(integer)':
      'housekeeping: revokes what the policy of the tenant says, and gives ids and hashes',
    'keys.start_overlaps(integer)':
      'housekeeping: shortens what a rotation of the tenant says, and gives ids and hashes',
    'keys.record_sign_ins(jsonb)':
      'a gateway reports for all tenants at once; the tenant must be there, and nobody is let in by it',
    'keys.prune_sign_ins(integer)': 'housekeeping: gives a number',
    'keys.find_key_to_notify(uuid)': 'for mails of the sync service: a key of the tenant of the assertion',
    'keys.review_new_routes(jsonb)': 'as uses',
    'keys.review_refused(jsonb)': 'as uses',
    'findings.note_overdue()': 'housekeeping: gives nothing',
    'keys.review_keys(integer)': 'housekeeping: gives a number',
    'keys.assess_changed_keys()': 'a trigger; nobody calls it',
    'keys.assess_keys_of_member()': 'a trigger; nobody calls it',
    'keys.review_after_policy()': 'a trigger; nobody calls it',
    'keys.create_tenant(text,text,text)': 'only for the operator: checks the assertion first',
    'keys.list_tenants(text,integer)': 'only for the operator: checks the assertion first',
    'keys.update_tenant(text,text,text,integer,integer,text)': 'only for the operator: checks the assertion first',
    'keys.list_tenant_events(text,uuid,integer)': 'only for the operator: checks the assertion first',
  },
  globalIndexes: {
    'keys.api_key_hash_unique': 'a key is looked up before its tenant is known; 256 random bits meet by no attempt',
    'keys.expired_scan_pk': 'one row',
    'keys.github_report_pk': 'as the table',
    'keys.revocation_pk': 'the log has one order for all tenants; the number comes from no tenant',
    'keys.revocation_seq_pk': 'one row',
    'keys.route_pk': 'as the table',
    'keys.usage_watch_pk': 'one row',
    'keys.tenant_slug_unique': 'only the operator chooses slugs',
  },
} as const

const allow = {
  tablesWithoutTenant: Object.keys(allowances.tablesWithoutTenant),
  definerFunctions: Object.keys(allowances.definerFunctions),
  globalIndexes: Object.keys(allowances.globalIndexes),
}

let database: TestDatabase
beforeAll(async () => (database = await createTestDatabase()))
afterAll(async () => await database.drop())

describe('the catalog of the migrated database', () => {
  test('follows every rule of tenant isolation', async () => {
    expect(await checkCatalog(database.url('superuser'), { allow })).toEqual([])
  })

  test('needs every allowed exception', async () => {
    const reported = JSON.stringify(await checkCatalog(database.url('superuser'), { allow: {} }))
    expect(Object.values(allow).flat()).not.toEqual([])
    expect(
      Object.values(allow)
        .flat()
        .filter((name) => !reported.includes(name)),
    ).toEqual([])
  })

  test('reports a table without a tenant', async () => {
    const owner = new Client({ connectionString: database.url('superuser') })
    await owner.connect()
    try {
      await owner.query('create table findings.forgotten (id uuid primary key)')
    } finally {
      await owner.end()
    }
    const violations = await checkCatalog(database.url('superuser'), { allow })
    expect(violations).toContainEqual({
      rule: 'C1',
      object: 'findings.forgotten',
      problem: 'has no column tenant_id uuid not null',
    })
  })
})
