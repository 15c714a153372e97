import type { Client } from 'pg'
import { type CatalogRule, rules, vocabulary } from './catalog-rules.ts'
import { connect } from './connect.ts'
import { definerRoles, loginRoles, ownerRole, runtimeRoles, secondLogins } from './roles.ts'

export type { CatalogRule } from './catalog-rules.ts'

/** One thing in the database that could let a tenant see or touch another's rows. */
export interface Violation {
  readonly rule: CatalogRule
  /** Name of the table, function, role, … */
  readonly object: string
  readonly problem: string
}

/** What is meant to be so, by its full name. Whoever adds a line here says why beside it. */
export interface CatalogAllowances {
  /** Tables that hold no tenant's rows: `schema.table`. */
  readonly tablesWithoutTenant?: readonly string[]
  /** SECURITY DEFINER functions that runtime roles may call or triggers run: `schema.name(argument types)`. */
  readonly definerFunctions?: readonly string[]
  /** Unique indexes on tenant tables that hold over all tenants: `schema.index`. */
  readonly globalIndexes?: readonly string[]
}

const ownAllowances = {
  tablesWithoutTenant: ['postern_meta.migration', 'tenancy.assertion_secret'],
  definerFunctions: [
    'tenancy.tenant_id()',
    'tenancy.assert_operator()',
    // The change feed: triggers that note for a row's own tenant; nobody calls them.
    'tenancy.note_changes()',
    'tenancy.end_changes()',
    'tenancy.sequence_changes()',
    // As these: it counts for a row's own tenant.
    'tenancy.count_new_links()',
    // For work that the tenant has asked for, in a transaction of its own.
    'tenancy.hold_work(uuid,uuid)',
    'tenancy.issue_for_run(uuid,uuid)',
    'tenancy.is_work_suspended(uuid,uuid)',
    'tenancy.note_suspension(uuid,boolean)',
  ],
}

/**
 * Reads the catalogs of a migrated database and reports everything that breaks the rules of tenant isolation. It knows
 * nothing of our tables: a new one that forgets its protection is reported because it is there. Any role may run it.
 */
export async function checkCatalog(
  connectionString: string,
  { allow }: { readonly allow: CatalogAllowances },
): Promise<Violation[]> {
  await using connection = await connect(connectionString)
  await connection.client.query('begin read only')
  return await findViolations(connection.client, allow)
}

/**
 * The same within the transaction that is open on `client`, which also sees what the transaction itself has changed; by
 * all rules, or by one.
 */
export async function findViolations(
  client: Client,
  allow: CatalogAllowances,
  only?: CatalogRule,
): Promise<Violation[]> {
  // Names come out with their schema only when no schema is searched.
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
    JSON.stringify(seconds),
  ]
  const violations: Violation[] = []
  for (const [rule, query] of rules) {
    if (only !== undefined && rule !== only) continue
    const { rows } = await client.query<{ object: string; problem: string }>(
      `${vocabulary} select distinct object, problem from (${query}) as found (object, problem) order by object, problem`,
      values,
    )
    for (const { object, problem } of rows) violations.push({ rule, object, problem })
  }
  return violations
}

/** The second logins, each with the role that it stands for. */
const seconds = Object.fromEntries(
  (['keys', 'findings', 'universe', 'evidence', 'sync'] as const).map((name) => [secondLogins[name], loginRoles[name]]),
)

/** What pg_get_expr makes of the one condition that a policy may have. */
const canonicalCondition = '(tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))'
