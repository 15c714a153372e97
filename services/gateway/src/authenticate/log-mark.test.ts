import { createHash, randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { nextMark } from './log-mark.ts'

const before = 'a'.repeat(64)
const hash = 'b'.repeat(64)
const tenantId = randomUUID()
const of = (text: string) => createHash('sha256').update(text).digest('hex')

describe('a mark is a hash of the previous one and of the entry', () => {
  test('of a revocation of a key', () => {
    const mark = nextMark(before, { kind: 'key', seq: 8, hash, version: 2, revoked: true })
    expect(mark).toBe(of(`${before} 8 key ${hash} 2 1`))
  })

  test('of a narrowing of a key', () => {
    const mark = nextMark(before, { kind: 'key', seq: 8, hash, version: 2, revoked: false })
    expect(mark).toBe(of(`${before} 8 key ${hash} 2 0`))
  })

  test('of a change of a tenant', () => {
    const mark = nextMark(before, { kind: 'tenant', seq: 9, tenantId, version: 3 })
    expect(mark).toBe(of(`${before} 9 tenant ${tenantId} 3 0`))
  })
})
