import { createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { TestDatabase } from '@postern/local-stack/testing'
import { createTestDatabase } from '@postern/local-stack/testing'
import { Client } from 'pg'
import type { Statement, TenantDb, TenantDbOptions } from '../src/index.ts'
import { openTenantDb } from '../src/index.ts'

/** A database with the tenant tables `probe.parent` and `probe.child`, on which postern_findings has all rights. */
export interface TenantTables extends AsyncDisposable {
  readonly database: TestDatabase
  asOwner(statements: string): Promise<void>
  /** Opens the database as postern_findings; closed with the tables. */
  open(options?: Partial<TenantDbOptions>): TenantDb
  /** Creates an assertion like the gateway. Every part can be replaced. */
  mint(tenantId: string, parts?: AssertionParts): { readonly assertion: string }
}

export interface AssertionParts {
  readonly keyId?: string
  readonly secret?: Buffer
  readonly lifetimeSeconds?: number
  readonly version?: string
}

/** Time limit for connections and responses, far longer than either takes. */
const waitMs = Number(process.env['POSTERN_TEST_WAIT_MS'] ?? 10_000)

export async function createTenantTables(): Promise<TenantTables> {
  const database = await createTestDatabase({ hasShippedLimits: true })
  const asOwner = async (statements: string): Promise<void> => {
    await using connection = await openClient(database.url('migrator'))
    await connection.client.query(`set role postern_owner; ${statements}`)
  }
  await asOwner(tables)
  const opened: TenantDb[] = []
  const key = firstKey(database.assertionKeys)
  return {
    database,
    asOwner,
    open: (options = {}) => {
      const db = openTenantDb({
        connectionString: database.url('findings'),
        maxConnections: 2,
        connectTimeoutMs: waitMs,
        queryTimeoutMs: waitMs,
        applicationName: 'tenant-db-tests',
        ...options,
      })
      opened.push(db)
      return db
    },
    mint: (tenantId, parts) => ({ assertion: mintAssertion(tenantId, { ...key, ...parts }) }),
    [Symbol.asyncDispose]: async () => {
      const areClosed = await Promise.race([
        Promise.all(opened.map(async (db) => await db.close())).then(() => true),
        delay(waitMs, false, { ref: false }),
      ])
      await database.drop()
      // Closing waits for running work and would never end with a leaked connection.
      if (!areClosed) throw new Error('a connection was lent out and never given back')
    },
  }
}

const tables = `
  create schema probe;
  create table probe.parent (
    tenant_id uuid not null,
    id uuid not null default uuidv7(),
    name text not null,
    amount integer not null default 0,
    constraint parent_pk primary key (tenant_id, id),
    constraint parent_name_unique unique (tenant_id, name),
    constraint parent_amount_positive check (amount >= 0)
  );
  create table probe.child (
    tenant_id uuid not null,
    id uuid not null default uuidv7(),
    parent_id uuid not null,
    constraint child_pk primary key (tenant_id, id),
    constraint child_parent_fk foreign key (tenant_id, parent_id) references probe.parent (tenant_id, id) on delete cascade
  );
  call tenancy.protect_table('probe.parent', 'postern_findings', array['select', 'insert', 'update', 'delete']);
  call tenancy.protect_table('probe.child', 'postern_findings', array['select', 'insert', 'update', 'delete']);`

/** Independent of the gateway's code, from the format's description: two implementations rarely share a bug. */
export function mintAssertion(
  tenantId: string,
  { keyId, secret, lifetimeSeconds = 60, version = 'v1' }: AssertionParts & { keyId: string; secret: Buffer },
): string {
  const text = `${version}.${keyId}.${tenantId}.${Math.floor(Date.now() / 1000) + lifetimeSeconds}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}

export function firstKey(ring: string): { readonly keyId: string; readonly secret: Buffer } {
  const [keyId = '', secret = ''] = ring.split(',')[0]?.split(':') ?? []
  return { keyId, secret: Buffer.from(secret, 'base64url') }
}

/** A plain connection, for statements outside of the tested package. */
export async function openClient(connectionString: string): Promise<AsyncDisposable & { readonly client: Client }> {
  const client = new Client({ connectionString })
  client.on('error', () => undefined)
  await client.connect()
  return { client, [Symbol.asyncDispose]: () => client.end() }
}

export function sql(text: string, ...values: readonly unknown[]): Statement {
  return { text, values }
}

/** Returns the names in probe.parent that the assertion shows. */
export async function names(db: TenantDb, tenant: { readonly assertion: string }): Promise<string[]> {
  const rows = await db.read(tenant, (tx) =>
    tx.query<{ name: string }>(sql('select name from probe.parent order by name')),
  )
  return rows.map((row) => row.name)
}

export async function addParent(
  db: TenantDb,
  tenant: { readonly assertion: string },
  tenantId: string,
  name: string,
): Promise<string> {
  const [row] = await db.write(tenant, (tx) =>
    tx.query<{ id: string }>(
      sql('insert into probe.parent (tenant_id, name) values ($1, $2) returning id', tenantId, name),
    ),
  )
  return row?.id ?? ''
}
