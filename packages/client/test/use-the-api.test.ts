import { createHash } from 'node:crypto'
import { createPosternClient } from '@postern/client'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { collect } from './collect.ts'

let stack: TestStack
let tenant: { id: string }

beforeAll(async () => {
  stack = await startTestStack()
  tenant = await stack.createTenant()
})
afterAll(async () => await stack.stop())

async function clientWith(...scopes: Parameters<TestStack['createKey']>[1]['scopes'][number][]) {
  const { key } = await stack.createKey(tenant, { scopes })
  return createPosternClient({ baseUrl: stack.gateways[0] ?? '', key })
}

describe('through the gateway', () => {
  test('a scope that the key lacks is named in the refusal', async () => {
    const client = await clientWith('read:universe')
    await expect(client.findings.get('ref:F-2026-0001')).rejects.toMatchObject({
      status: 403,
      code: 'insufficient_scope',
      problem: { required_scope: 'read:findings' },
    })
    expect(await client.whoami()).toMatchObject({ granted: ['read:universe'], tenant: { id: tenant.id } })
  })

  test('findings are documented, read by reference, and listed over several pages', async () => {
    const writer = await clientWith('write:findings')
    const references: string[] = []
    for (const severity of ['high', 'low', 'high'] as const) {
      const made = await writer.findings.create({ title: 'Access reviews are late', condition: 'As seen.', severity })
      references.push(made.reference)
    }
    const reader = await clientWith('read:findings')
    const [first = ''] = references
    expect(await reader.findings.get(`ref:${first}`)).toMatchObject({ reference: first, severity: 'high' })
    const listed = await collect(reader.findings.list({ severity: 'high', limit: 1, sort: 'created_at' }))
    expect(listed.map(({ reference }) => reference)).toEqual([references[0], references[2]])
  })

  test('a file is uploaded, from memory and as a stream, and the receipt is for its bytes', async () => {
    const client = await clientWith('write:evidence')
    const bytes = new TextEncoder().encode('Access review of 2026-11: 3 accounts removed.\n')
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    for (const content of [bytes, new Blob([bytes]).stream()]) {
      const receipt = await client.evidence.upload({ content, fileName: 'review ½.txt', contentType: 'text/plain' })
      expect(receipt).toMatchObject({ file_name: 'review ½.txt', size_bytes: bytes.length, sha256 })
    }
  })

  test('entities are listed, none of them another tenant’s', async () => {
    const client = await clientWith('read:universe')
    expect(await collect(client.entities.list({ type: ['process', 'vendor'] }))).toEqual([])
  })
})
