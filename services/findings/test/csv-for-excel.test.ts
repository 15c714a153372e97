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

  test('keeps texts that look like formulas, unless the request asks to escape them', async () => {
    const tenant = newTenant()
    for (const title of ['-5 % of all samples', '=1+1', '+49 30 1', '@all']) {
      const body = findingBody({ title, condition: `\n${title}` })
      expect((await service.call(tenant, 'POST', path, { body })).status).toBe(201)
    }
    const cellsOf = async (query: string) => (await bytesOfList(tenant, `?sort=created_at&${query}`)).toString()
    for (const query of ['', 'csv=excel&formulas=escape', 'formulas=escape']) {
      const text = await cellsOf(query)
      for (const cell of [`,'-5 % of all samples,`, `,'=1+1,`, `,'+49 30 1,`, `,'@all,`, `,"'\n=1+1",`]) {
        expect(text, query).toContain(cell)
      }
    }
    for (const query of ['csv=excel', 'formulas=keep']) {
      const text = await cellsOf(query)
      for (const cell of [',-5 % of all samples,', ',=1+1,', ',+49 30 1,', ',@all,', ',"\n=1+1",']) {
        expect(text, query).toContain(cell)
      }
    }
  })

  test('has the separator that the request names, and quotes the cells that contain it', async () => {
    const tenant = newTenant()
    const body = findingBody({ title: 'a;b,c', condition: 'd\te' })
    expect((await service.call(tenant, 'POST', path, { body })).status).toBe(201)
    const linesOf = async (query: string) =>
      (await bytesOfList(tenant, `?fields=id,title,condition&${query}`)).toString().split('\r\n')
    expect(await linesOf('csv=excel&separator=semicolon')).toMatchObject([
      '\ufeffid;title;condition',
      expect.stringMatching(/^[0-9a-f-]{36};"a;b,c";d\te$/),
      '',
    ])
    expect(await linesOf('separator=tab')).toMatchObject([
      'id\ttitle\tcondition',
      expect.stringMatching(/\t"?a;b,c"?\t"d\te"$/),
      '',
    ])
    expect(await linesOf('separator=comma')).toEqual(await linesOf(''))
  })

  test('does not change JSON pages, and other values are rejected', async () => {
    const tenant = newTenant()
    const page = await service.call(tenant, 'GET', `${path}?csv=excel&separator=tab&formulas=keep`)
    expect(page.json).toEqual([])
    for (const query of ['csv=word', 'separator=;', 'separator=pipe', 'formulas=run']) {
      const refused = await service.call(tenant, 'GET', `${path}?${query}`)
      expect([refused.status, refused.json], query).toMatchObject([400, { code: 'bad_request' }])
    }
  })

  test('is available for every list', () => {
    const lists = routeTable.filter((route) => itemSchemaOf(route) !== undefined)
    expect(lists.length).toBeGreaterThan(10)
    const members = ['csv', 'separator', 'formulas']
    const lacks = lists.filter(({ query }) => members.some((member) => query?.shape[member] === undefined))
    expect(lacks.map(({ id }) => id)).toEqual([])
  })
})
