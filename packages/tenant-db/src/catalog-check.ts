import type { Client } from 'pg'
import { type CatalogRule, rules, commonTableExpressions } from './catalog-rules.ts'
import { connect } from './connect.ts'
import { definerRoles, loginRoles, ownerRole, runtimeRoles, secondLogins } from './roles.ts'

export type { CatalogRule } from './catalog-rules.ts'

export interface Violation {
  readonly rule: CatalogRule
  readonly object: string
  readonly problem: string
}

/** Exceptions by full name. */
export interface CatalogAllowances {
  /** Tables without tenant rows: `schema.table`. */
  readonly tablesWithoutTenant?: readonly string[]
  /** SECURITY DEFINER functions for runtime roles or triggers: `schema.name(argument types)`. */
  readonly definerFunctions?: readonly string[]
  /** Unique indexes across tenants: `schema.index`. */
  readonly globalIndexes?: readonly string[]
}

const ownAllowances = {
  tablesWithoutTenant: ['postern_meta.migration', 'tenancy.assertion_secret'],
  definerFunctions: [
    'tenancy.tenant_id()',
    'tenancy.assert_operator()',
    // The change feed's triggers record the row's own tenant and are never called directly.
    'tenancy.note_changes()',
    'tenancy.note_event()',
    'tenancy.list_event_readers()',
    'tenancy.end_changes()',
    'tenancy.end_audit_event()',
    // Only definers with triggers call them.
    'tenancy.record_audit_event(uuid,timestamp with time zone,text,text,text,text,text,text,text,text,text,text,text,text)',
    'tenancy.set_audit_retention(uuid,integer)',
    // Acts only on the tenant of the assertion.
    'tenancy.sequence_audit_events()',
    // Housekeeping: returns whether more is left.
    'tenancy.maintain_audit_events(integer)',
    'tenancy.sequence_changes()',
    'tenancy.count_new_links()',
    'tenancy.hold_work(uuid,uuid)',
    'tenancy.issue_for_run(uuid,uuid)',
    'tenancy.is_work_suspended(uuid,uuid)',
    'tenancy.note_suspension(uuid,boolean)',
  ],
}

/** Reports every violation of tenant isolation. Any role can run it. */
export async function checkCatalog(
  connectionString: string,
  { allow }: { readonly allow: CatalogAllowances },
): Promise<Violation[]> {
  await using connection = await connect(connectionString)
  await connection.client.query('begin read only')
  return await findViolations(connection.client, allow)
}

export async function findViolations(
  client: Client,
  allow: CatalogAllowances,
  only?: CatalogRule,
): Promise<Violation[]> {
  // PostgreSQL qualifies names only with an empty search path.
  await client.query("set local search_path = ''")
  const values = [
    [...ownAllowances.tablesWithoutTenant, ...(allow.tablesWithoutTenant ?? [])],
    [...ownAllowances.definerFunctions, ...(allow.definerFunctions ?? [])],
    [...(allow.globalIndexes ?? [])],
    [...runtimeRoles],
    ownerRole,
    loginRoles.migrator,
    JSON.stringify(definerRoles),
    canonicalCondition,
    JSON.stringify(rolesOfSecondLogins),
  ]
  const violations: Violation[] = []
  for (const [rule, query] of rules) {
    if (only !== undefined && rule !== only) continue
    const { rows } = await client.query<{ object: string; problem: string }>(
      `${commonTableExpressions} select distinct object, problem from (${query}) as found (object, problem) order by object, problem`,
      values,
    )
    for (const { object, problem } of rows) violations.push({ rule, object, problem })
  }
  return violations
}

const rolesOfSecondLogins = Object.fromEntries(
  (['keys', 'findings', 'universe', 'evidence', 'sync'] as const).map((name) => [secondLogins[name], loginRoles[name]]),
)

/** The only allowed condition, as pg_get_expr returns it. */
const canonicalCondition = '(tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))'
