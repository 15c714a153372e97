import { itemSchemaOf, routeTable } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

/** The list as bytes: a reader of text leaves a byte order mark out. */
async function bytesOfList(tenant: Principal, query: string): Promise<Buffer> {
  const target = `${path}${query}`
  const headers = { ...service.signedHeaders(tenant, 'GET', target), accept: 'text/csv' }
  return Buffer.from(await (await fetch(service.url + target, { headers })).arrayBuffer())
}

describe('a CSV for Excel', () => {
  test('is the same CSV with a byte order mark, with umlauts in UTF-8', async () => {
    const tenant = newTenant()
    await service.call(tenant, 'POST', path, { body: findingBody({ title: 'Prüfung übergreifend' }) })
    const bytesOf = async (query: string) => await bytesOfList(tenant, query)
    const [plain, forExcel] = [await bytesOf(''), await bytesOf('?csv=excel')]
    expect(plain.toString()).toContain('Prüfung übergreifend')
    expect(forExcel).toEqual(Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), plain]))
  })

  test('has a byte order mark even if the list is empty', async () => {
    const bytes = await bytesOfList(newTenant(), '?csv=excel')
    expect(bytes.subarray(0, 6).toString('hex')).toBe(Buffer.from('\ufeffid,').toString('hex'))
  })

  test('does not change JSON pages, and other values are rejected', async () => {
    const tenant = newTenant()
    expect((await service.call(tenant, 'GET', `${path}?csv=excel`)).json).toEqual([])
    expect((await service.call(tenant, 'GET', `${path}?csv=word`)).status).toBe(400)
  })

  test('is available for every list', () => {
    const lists = routeTable.filter((route) => itemSchemaOf(route) !== undefined)
    expect(lists.length).toBeGreaterThan(10)
    expect(lists.filter(({ query }) => query?.shape['csv'] === undefined).map(({ id }) => id)).toEqual([])
  })
})
