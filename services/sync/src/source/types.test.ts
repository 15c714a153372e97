import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Outbound } from '../outbound/outbound.ts'
import { SourceReadError } from './source-read-error.ts'
import { defaultLimits } from './limits.ts'
import { defineSourceType } from './types.ts'

const outbound: Outbound = {
  resolve: async () => await Promise.reject(new SourceReadError('address_not_allowed', 'none is')),
  isListed: () => false,
  http: () => {
    throw new SourceReadError('address_not_allowed', 'none is')
  },
}

const counting = defineSourceType({
  type: 'counting',
  configSchema: z.strictObject({ to: z.int().default(2) }),
  secretNames: [],
  async *read({ config }) {
    for (let row = 1; row <= config.to; row++) yield { kind: 'row' as const, row, values: { count: row } }
  },
})

async function readAll(config: unknown): Promise<unknown[]> {
  const { signal } = new AbortController()
  const items: unknown[] = []
  for await (const item of counting.read({ config, secrets: {}, outbound, signal, limits: defaultLimits }))
    items.push(item)
  return items
}

describe('a source type', () => {
  test('reads nothing with an invalid configuration', async () => {
    for (const config of [{ to: 'three' }, { to: 1, unknown: true }]) {
      await expect(readAll(config)).rejects.toMatchObject({ code: 'config_invalid', retryable: false })
    }
    expect(await readAll({ to: 1 })).toEqual([{ kind: 'row', row: 1, values: { count: 1 } }])
  })

  test('reads with the defaults of its schema', async () => {
    expect(await readAll({})).toHaveLength(2)
  })
})

describe('an item whose texts are decomposed (NFD)', () => {
  const of = defineSourceType({
    type: 'of',
    configSchema: z.strictObject({ values: z.record(z.string(), z.unknown()) }),
    secretNames: [],
    async *read({ config: { values } }) {
      yield { kind: 'row' as const, row: 1, values }
    },
  })
  const read = async (values: object): Promise<unknown[]> => {
    const { signal } = new AbortController()
    const context = { config: { values }, secrets: {}, outbound, signal, limits: defaultLimits }
    const items: unknown[] = []
    for await (const item of of.read(context)) items.push(item)
    return items
  }

  test('comes with names and values composed, at every depth', async () => {
    expect(await read({ 'stra\u00dfe u\u0308': ['u\u0308', { 'o\u0308': 'a\u0308' }] })).toEqual([
      { kind: 'row', row: 1, values: { 'stra\u00dfe \u00fc': ['\u00fc', { '\u00f6': '\u00e4' }] } },
    ])
  })

  test.each([
    ['a name', { id: 1, '\u00fc': 2, 'u\u0308': 3 }],
    ['a name within a value', { id: 1, '\u00fc': { '\u00e4': 2, 'a\u0308': 3 } }],
  ])('is a fault of the column that has %s in two forms', async (_what, values) => {
    expect(await read(values)).toMatchObject([
      { kind: 'error', row: 1, field: '\u00fc', code: 'duplicate_key', values: { id: 1 } },
    ])
  })
})
