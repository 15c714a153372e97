import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { TestStack } from '@postern/local-stack/testing'
import { connect } from '@postern/tenant-db'

/** What is stored of each write, by the name that its request gave it. */
export type Writes = ReadonlyMap<string, readonly { readonly tenantId: string; readonly title: string }[]>

/** Returns what PostgreSQL has of each write. Only the row shows the tenant of a file. */
export async function readWrites(stack: TestStack): Promise<Writes> {
  const rows = await select<{ name: string; tenantId: string; title: string }>(
    stack,
    `select external_id as name, tenant_id as "tenantId", title from findings.finding where external_id is not null
     union all select external_id, tenant_id, name from universe.entity where external_id is not null
     union all select file_name, tenant_id, tenant_id::text from evidence.file`,
  )
  return Map.groupBy(rows, ({ name }) => name)
}

/** Returns a line for each file with wrong bytes, and for bytes without a row or upload. */
export async function findWrongBytes(stack: TestStack, blobs: string): Promise<string[]> {
  const rows = await select<{ tenantId: string; sha256: string }>(
    stack,
    `select tenant_id as "tenantId", sha256 from evidence.file`,
  )
  const named = new Set(rows.map(({ tenantId, sha256 }) => pathOf(tenantId, sha256)))
  const wrong: string[] = []
  for (const path of named) {
    const bytes = await readFile(join(blobs, 'blobs', path)).catch(() => undefined)
    const found = bytes === undefined ? 'nothing' : createHash('sha256').update(bytes).digest('hex')
    if (found !== basename(path)) wrong.push(`the bytes of ${path} are ${found}`)
  }
  const entries = await readdir(join(blobs, 'settling'), { recursive: true }).catch(() => [])
  const settling = new Set(entries.map((entry) => basename(entry).split('.', 1)[0]))
  for (const path of await readdir(join(blobs, 'blobs'), { recursive: true })) {
    const isFile = basename(path).length === 64
    if (isFile && !named.has(path) && !settling.has(basename(path))) wrong.push(`no row knows the bytes of ${path}`)
  }
  return wrong
}

function pathOf(tenantId: string, sha256: string): string {
  return join(tenantId, sha256.slice(0, 2), sha256)
}

/** The rows of a statement, as the superuser sees them. */
export async function select<T extends object>(stack: TestStack, statement: string): Promise<T[]> {
  await using connection = await connect(stack.database.url('superuser'))
  return (await connection.client.query<T>(statement)).rows
}
