import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { openImports } from './imports.ts'

const caller = { tenantId: 't', assertion: 'a', runId: 'r', connectorId: 'c', label: 'l', requestId: 'q' }
const row = { source_key: 'A', missing_since: '2026-11-29T00:00:00.000Z' }

function exportOf(input: Readable) {
  const imports = openImports({
    send: async () => await Promise.reject(new Error('not asked')),
    stream: async () => input,
  })
  return imports.exportMissing(caller, { dataset: 'people', hierarchy: null }, '')
}

test('an export that the client leaves early closes the answer of the universe', async () => {
  const input = new Readable({
    read() {
      this.push(`${JSON.stringify(row)}\n`)
    },
    // As undici reports an answer that was not read to its end.
    destroy(_error, done) {
      done(new Error('aborted'))
    },
  })
  for await (const found of exportOf(input)) {
    expect(found).toEqual(row)
    break
  }
  expect(input.destroyed).toBe(true)
})

test('an export fails if the answer of the universe breaks off', async () => {
  const input = new Readable({ read: () => undefined })
  input.push(`${JSON.stringify(row)}\n`)
  const found: unknown[] = []
  const reading = (async () => {
    for await (const one of exportOf(input)) {
      found.push(one)
      input.destroy(new Error('broken off'))
    }
  })()
  await expect(reading).rejects.toThrow('broken off')
  expect(found).toEqual([row])
})
