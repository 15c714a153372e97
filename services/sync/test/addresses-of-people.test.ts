import { pushResultSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, create, runCsv, errorsOf } = useRuns()

const guest = 'ada_example.com#ext#@harbourline.onmicrosoft.com'

async function addressesOf({ tenantId }: Principal): Promise<unknown[]> {
  const text = 'select external_id, email from universe.person where tenant_id = $1 order by external_id'
  return (await parts().world.rows(text, [tenantId])).map((row) => [row['external_id'], row['email']])
}

async function push(tenant: Principal, people: readonly object[]) {
  const body = Buffer.from(JSON.stringify(people))
  const headers = { 'content-type': 'application/json' }
  return await parts().caller.call(tenant, 'POST', '/api/v1/sync/people', { body, headers })
}

describe('a push of people', () => {
  test('takes the addresses that directories hold, in lower case', async () => {
    const tenant = admin()
    const addresses = ['ADA_example.com#EXT#@harbourline.onmicrosoft.com', 'r&d=c/o@x.example', 'Jürgen@Bücher.example']
    const people = addresses.map((email, at) => ({ external_id: String(at), name: 'N', email }))
    expect((await push(tenant, people)).status).toBe(200)
    expect(await addressesOf(tenant)).toEqual([
      ['0', guest],
      ['1', 'r&d=c/o@x.example'],
      ['2', 'jürgen@bücher.example'],
    ])
  })

  test('keeps a person without an address that cannot be used, and says so', async () => {
    const tenant = admin()
    const answer = await push(tenant, [
      { external_id: '1', name: 'Ada', email: 'ada@x.example' },
      { external_id: '2', name: 'Bo', email: 'n/a' },
      { external_id: '3', name: 'Cy', email: `${'c'.repeat(65)}@x.example` },
      { external_id: '4', name: 'Di', email: '' },
    ])
    expect(answer.status).toBe(200)
    const { warnings } = pushResultSchema.parse(answer.json)
    expect(warnings?.map(({ pointer, code }) => [pointer, code])).toEqual(
      ['/1/email', '/2/email', '/3/email'].map((pointer) => [pointer, 'unusable_address']),
    )
    expect(await addressesOf(tenant)).toEqual([
      ['1', 'ada@x.example'],
      ['2', null],
      ['3', null],
      ['4', null],
    ])
  })
})

describe('a connector', () => {
  test('brings people with the addresses that directories hold, and without those that cannot be used', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    const run = await runCsv(
      tenant,
      connector,
      ['external_id,name,email', `1,Ada,${guest}`, '2,Bo,n/a', '3,Cy,'].join('\n'),
    )
    expect(run.status).toBe('succeeded')
    expect(await addressesOf(tenant)).toEqual([
      ['1', guest],
      ['2', null],
      ['3', null],
    ])
    const told = (await errorsOf(tenant, run)).map(({ source_key: key, field, code, severity }) => [
      key,
      field,
      code,
      severity,
    ])
    expect(told).toEqual([['2', 'email', 'unusable_address', 'warning']])
  })

  test('names an owner by what was meant as the address, if that is all there is', async () => {
    const tenant = admin()
    const connector = await create(tenant, {
      mapping: [
        ...['external_id', 'name', 'type'].map((name) => ({ target: name, source: name })),
        { target: 'owner.email', source: 'owner' },
      ],
    })
    const run = await runCsv(
      tenant,
      connector,
      ['external_id,name,type,owner', '1,A,process,n/a', `2,B,process,${guest}`].join('\n'),
    )
    expect(run.status).toBe('succeeded')
    const rows = await parts().world.rows(
      'select owner from universe.entity where tenant_id = $1 order by external_id',
      [tenant.tenantId],
    )
    expect(rows.map(({ owner }) => owner)).toEqual([{ name: 'n/a' }, { email: guest }])
  })
})
