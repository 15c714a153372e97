import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { Remembered, heldBytes } from './remembered.ts'

const hashOf = (text: string) => hash('sha256', text, 'binary').slice(0, 16)
const hashes = ['a', 'b', 'c'].map(hashOf)

function remember(): Remembered {
  const remembered = new Remembered(hashes.length)
  remembered.add(Buffer.concat(hashes.map((one) => Buffer.from(one, 'latin1').subarray(0, heldBytes))))
  return remembered
}

/** The bytes behind those that are held, by exclusive or. */
function restOf(taken: readonly string[]): string {
  const rest = Buffer.alloc(16 - heldBytes)
  for (const one of taken)
    for (let at = 0; at < rest.length; at += 1) rest[at] = (rest[at] ?? 0) ^ one.charCodeAt(heldBytes + at)
  return rest.toString('hex')
}

describe('what is remembered', () => {
  test('is taken once each, in any order, and summed up whole', () => {
    const remembered = remember()
    expect([remembered.taken, remembered.rest]).toEqual([0, '0'.repeat(16)])
    expect(hashes.toReversed().map((one) => remembered.take(one))).toEqual([true, true, true])
    expect(hashes.map((one) => remembered.take(one))).toEqual([false, false, false])
    expect([remembered.taken, remembered.rest]).toEqual([3, restOf(hashes)])
  })

  test('is not what nobody has added, and sums up what was taken alone', () => {
    const remembered = remember()
    expect(remembered.take(hashOf('d'))).toBe(false)
    expect(remembered.take(hashes[1] ?? '')).toBe(true)
    expect([remembered.taken, remembered.rest]).toEqual([1, restOf(hashes.slice(1, 2))])
  })
})
