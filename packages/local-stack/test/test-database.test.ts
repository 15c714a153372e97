import { randomUUID } from 'node:crypto'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { openTenantDb } from '@postern/tenant-db'
import { describe, expect, test } from 'vitest'
import { createTestDatabase, randomRing } from '../src/testing/index.ts'

const limits = { maxConnections: 1, connectTimeoutMs: 5_000, queryTimeoutMs: 5_000, applicationName: 'test' }

describe('a test database', () => {
  test('accepts assertions of its own ring and of no other', async () => {
    const database = await createTestDatabase()
    const db = openTenantDb({ connectionString: database.url('findings'), ...limits })
    const tenant = randomUUID()
    const ask = async (ring: string) =>
      await db.read({ assertion: mintAssertion(parseKeyRing(ring), tenant, Date.now()) }, async (tx) => {
        return await tx.query<{ id: string }>({ text: 'select tenancy.tenant_id() as id', values: [] })
      })
    try {
      await expect(ask(randomRing('other'))).rejects.toMatchObject({ code: '28000' })
      expect(await ask(database.assertionKeys)).toEqual([{ id: tenant }])
    } finally {
      await db.close()
      await database.drop()
    }
  })

  test('is closed to the role of another service', async () => {
    const database = await createTestDatabase()
    const db = openTenantDb({ connectionString: database.url('sync'), ...limits })
    const count = async (table: string) =>
      await db.read(
        { assertion: mintAssertion(parseKeyRing(database.assertionKeys), randomUUID(), Date.now()) },
        async (tx) => {
          return await tx.query({ text: `select count(*) from ${table}`, values: [] })
        },
      )
    try {
      await expect(count('findings.finding')).rejects.toMatchObject({ code: '42501' })
      expect(await count('sync.connector')).toEqual([{ count: '0' }])
    } finally {
      await db.close()
      await database.drop()
    }
  })
})
