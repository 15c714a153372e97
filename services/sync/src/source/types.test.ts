import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Outbound } from '../outbound/outbound.ts'
import { SourceFailure } from './failure.ts'
import { defaultLimits } from './limits.ts'
import { type SourceItem, defineSourceType } from './types.ts'

const outbound: Outbound = {
  resolve: async () => await Promise.reject(new SourceFailure('address_not_allowed', 'none is')),
  isListed: () => false,
  http: () => {
    throw new SourceFailure('address_not_allowed', 'none is')
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

async function readAll(config: unknown): Promise<SourceItem[]> {
  const { signal } = new AbortController()
  const items: SourceItem[] = []
  for await (const item of counting.read({ config, secrets: {}, outbound, signal, limits: defaultLimits }))
    items.push(item)
  return items
}

describe('a source type', () => {
  test('reads nothing with a configuration that is not of its schema', async () => {
    for (const config of [{ to: 'three' }, { to: 1, unknown: true }]) {
      await expect(readAll(config)).rejects.toMatchObject({ code: 'config_invalid', retryable: false })
    }
    expect(await readAll({ to: 1 })).toEqual([{ kind: 'row', row: 1, values: { count: 1 } }])
  })

  test('reads with the defaults of its schema', async () => {
    expect(await readAll({})).toHaveLength(2)
  })
})
