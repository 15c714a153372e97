import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { describeSchema } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')

/**
 * The stored schema of each part, which shows a reviewer what a migration changes. Update with `UPDATE_SCHEMA=1 npm
 * test -- test/repository/schema-is-current.test.ts`
 */
const files = {
  tenancy: 'packages/tenant-db/schema.sql',
  keys: 'services/keys/schema.sql',
  findings: 'services/findings/schema.sql',
  universe: 'services/universe/schema.sql',
  evidence: 'services/evidence/schema.sql',
  sync: 'services/sync/schema.sql',
} as const

let database: TestDatabase
beforeAll(async () => (database = await createTestDatabase()))
afterAll(async () => await database.drop())

describe('schema.sql matches the migrated database', () => {
  test.each(Object.entries(files))('%s: %s', async (schema, file) => {
    const path = join(root, file)
    const current = await describeSchema(database.url('migrator'), schema)
    expect(current).toMatch(/create table/)
    if (process.env['UPDATE_SCHEMA'] === '1') writeFileSync(path, current)
    expect(existsSync(path) ? readFileSync(path, 'utf8') : '').toBe(current)
  })
})
