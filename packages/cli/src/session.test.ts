import { apiKeyEventSchema } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import type { OperatorService } from './operator-service.ts'
import { listAll } from './session.ts'

const event = (id: string) => ({
  id,
  type: 'created',
  at: '2026-11-21T09:30:00.000Z',
  actor: null,
  address: null,
  detail: {},
})
const [first, second, third] = [1, 2, 3].map((digit) => event(`019a9c1e-7d3b-7cc2-9a55-0d7d2c9be00${digit}`))

/** A service whose list has two pages, and the targets that it was asked for. */
function pagedService(): { service: OperatorService; asked: string[] } {
  const asked: string[] = []
  const service: OperatorService = {
    call: async ({ target }) => {
      asked.push(target)
      if (target.includes('cursor=two')) return { body: [third], next: undefined }
      return { body: [first, second], next: '/events?limit=1000&cursor=two' }
    },
    close: () => undefined,
  }
  return { service, asked }
}

describe('a list', () => {
  const list = { path: '/events', schema: apiKeyEventSchema.array() }

  test('is read page after page to its end', async () => {
    const { service, asked } = pagedService()
    const all = await listAll(service, {}, { ...list, query: new URLSearchParams(), limit: Number.POSITIVE_INFINITY })
    expect(all).toEqual([first, second, third])
    expect(asked).toEqual(['/events?limit=1000', '/events?limit=1000&cursor=two'])
  })

  test('ends at its limit and requests no further page', async () => {
    const { service, asked } = pagedService()
    expect(await listAll(service, {}, { ...list, query: new URLSearchParams(), limit: 2 })).toEqual([first, second])
    expect(asked).toEqual(['/events?limit=2'])
  })

  test('that does not match the contract is not printed', async () => {
    const service: OperatorService = {
      call: async () => ({ body: [{ id: 'x' }], next: undefined }),
      close: () => undefined,
    }
    const reading = listAll(service, {}, { ...list, query: new URLSearchParams(), limit: 1 })
    await expect(reading).rejects.toThrow('response that this version of the command does not understand')
  })
})
