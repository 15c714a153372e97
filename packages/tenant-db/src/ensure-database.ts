import { changeDatabaseUrl } from '@postern/contracts/internal'
import type { Client } from 'pg'
import { escapeIdentifier } from 'pg'
import { connect } from './connect.ts'
import { isState, withRetries } from './retries.ts'
import {
  becomeOwnerSql,
  closeLargeObjectsSql,
  createDatabaseSql,
  databaseGrantsSql,
  mayBecomeOwnerSql,
} from './role-statements.ts'
import { logins, ownerRole } from './roles.ts'

/** Creates the database if it is missing, and revokes the access of other roles. Only a superuser can close large objects. */
export async function ensureDatabase(superuserConnectionString: string, database: string): Promise<void> {
  let isNew = false
  await withRetries(async () => {
    await using connection = await connect(superuserConnectionString)
    if ((await findDatabase(connection.client, database)) !== undefined) return
    await ensureMayBecomeOwner(connection.client)
    try {
      await connection.client.query(createDatabaseSql(database, ownerRole))
      isNew = true
    } catch (error) {
      // duplicate_database, or the unique index behind it.
      if (!isState(error, '42P04', '23505')) throw error
    }
  })
  let isSuperuser = false
  await withRetries(async () => {
    await using connection = await connect(superuserConnectionString)
    const { client } = connection
    await client.query("begin; select pg_advisory_xact_lock(hashtextextended('postern.database', 0))")
    const found = await findDatabase(client, database)
    isSuperuser = found?.is_superuser === true
    if (found?.owner !== ownerRole) {
      await client.query(`alter database ${escapeIdentifier(database)} owner to ${ownerRole}`)
    }
    if (found?.closed !== true || found.owner !== ownerRole) {
      await ensureMayBecomeOwner(client)
      await client.query(`set local role ${ownerRole}`)
      for (const statement of databaseGrantsSql(database, logins)) await client.query(statement)
    }
    await client.query('commit')
  })
  if (isSuperuser) {
    const databaseUrl = changeDatabaseUrl(superuserConnectionString, (url) => {
      url.pathname = `/${encodeURIComponent(database)}`
    })
    await withRetries(async () => {
      await using connection = await connect(databaseUrl)
      await connection.client.query(['revoke all on schema public from public', ...closeLargeObjectsSql].join(';\n'))
    })
  }
  if (isNew) {
    await withRetries(async () => {
      await using connection = await connect(superuserConnectionString)
      await closeDefaultDatabases(connection.client)
    })
  }
}

interface FoundDatabase {
  readonly owner: string
  readonly closed: boolean
  readonly is_superuser: boolean
}

async function findDatabase(client: Client, database: string): Promise<FoundDatabase | undefined> {
  const { rows } = await client.query<FoundDatabase>(
    `select pg_get_userbyid(d.datdba) as owner,
            not exists (select from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) as a where a.grantee = 0)
            and not exists (select from unnest($2::text[]) as login where not has_database_privilege(login, d.oid, 'connect')) as closed,
            (select rolsuper from pg_roles where rolname = current_user) as is_superuser
       from pg_database as d
      where d.datname = $1`,
    [database, logins],
  )
  return rows[0]
}

/** PostgreSQL 16 and later: the creator of the owner needs a grant to become it. */
async function ensureMayBecomeOwner(client: Client): Promise<void> {
  const { rows } = await client.query<{ may: boolean }>(`select ${mayBecomeOwnerSql(ownerRole)} as may`)
  if (rows[0]?.may !== true) await client.query(becomeOwnerSql(ownerRole))
}

/** Otherwise a service's role could leave temporary tables or large objects there. */
async function closeDefaultDatabases(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select d.datname as name
       from pg_database as d
      where d.datname in ('postgres', 'template1')
        and (has_database_privilege('public', d.oid, 'connect') or has_database_privilege('public', d.oid, 'temporary'))
      order by 1`,
  )
  for (const { name } of rows) {
    const database = escapeIdentifier(name)
    try {
      await client.query(
        `grant connect on database ${database} to pg_monitor; revoke connect, temporary on database ${database} from public`,
      )
    } catch (error) {
      if (!isState(error, '42501')) throw error
    }
  }
}
