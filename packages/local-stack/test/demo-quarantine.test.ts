import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { seedQuarantine } from '../src/demo/quarantine.ts'
import { createTestDatabase } from '../src/testing/index.ts'

test('a start that is ended while the quarantine of the demo is filled leaves no server behind', async () => {
  const database = await createTestDatabase()
  const scanners: string[] = []
  // As services are restarted once the start is ended: not at all.
  const restart = async (_name: string, env: Readonly<Record<string, string>> = {}): Promise<void> => {
    const { POSTERN_CLAMAV_URL: url } = env
    if (url !== undefined) scanners.push(url)
    throw new Error('the start was ended')
  }
  try {
    const target = {
      services: { restart },
      databaseUrl: database.url('evidence'),
      assertionKeys: database.assertionKeys,
      evidence: { call: async () => await Promise.reject(new Error('nobody is to be asked')) },
    }
    await expect(seedQuarantine(target, [{ principal: { tenantId: randomUUID() }, files: [] }])).rejects.toThrow(
      'the start was ended',
    )
  } finally {
    await database.drop()
  }
  expect(scanners).toHaveLength(1)
  const { hostname, port } = new URL(scanners[0] ?? '')
  await expect(once(connect(Number(port), hostname), 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})
