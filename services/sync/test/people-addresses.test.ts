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
  test('accepts the addresses of directories, in lower case', async () => {
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

/** Sends a push that is accepted; returns its warnings. */
const sent = async (tenant: Principal, path: string, body: object, type = 'application/json') => {
  const text = type === 'application/json' ? JSON.stringify(body) : `${JSON.stringify(body)}\n`
  const headers = { 'content-type': type }
  const answer = await parts().caller.call(tenant, 'POST', `/api/v1/sync/${path}`, {
    body: Buffer.from(text),
    headers,
  })
  expect([answer.status, answer.text]).toEqual([200, answer.text])
  return (pushResultSchema.parse(answer.json).warnings ?? []).map(({ pointer, code }) => [pointer, code])
}

describe('only an unusable e-mail address is dropped, not its row', () => {
  const long = `${'x'.repeat(70)}@x.example`
  test('in a push of entities', async () => {
    const tenant = admin()
    const entity = { name: 'E', type: 'process' }
    const warnings = await sent(tenant, 'entities', [
      { ...entity, external_id: '1', owner: { email: 'n/a', name: 'Ada' }, executive: { email: ' ex@x.example ' } },
      { ...entity, external_id: '2', owner: { email: 'Bo Berg' }, audit_lead: { email: long } },
      { ...entity, external_id: '3', owner: { email: '' }, audit_lead: { email: 'x'.repeat(2000) } },
      { ...entity, external_id: '4', owner: { email: 'di@x.example' }, executive: { email: 'a\tb' } },
    ])
    expect(warnings).toEqual(
      ['/0/owner', '/1/owner', '/1/audit_lead', '/2/owner', '/2/audit_lead', '/3/executive'].map((place) => [
        `${place}/email`,
        'unusable_address',
      ]),
    )
    const text = `select owner, audit_lead, executive from universe.entity where tenant_id = $1 order by external_id`
    expect(await parts().world.rows(text, [tenant.tenantId])).toEqual([
      { owner: { name: 'Ada' }, audit_lead: null, executive: { email: 'ex@x.example' } },
      { owner: { name: 'Bo Berg' }, audit_lead: { name: long }, executive: null },
      { owner: null, audit_lead: null, executive: null },
      { owner: { email: 'di@x.example' }, audit_lead: null, executive: { name: 'a b' } },
    ])
  })

  test('in a push of entities as lines', async () => {
    const row = { external_id: '1', name: 'E', type: 'process', owner: { email: 'n/a' } }
    expect(await sent(admin(), 'entities', row, 'application/x-ndjson')).toEqual([
      ['/0/owner/email', 'unusable_address'],
    ])
  })

  test('in a push of a hierarchy', async () => {
    const tenant = admin()
    const warnings = await sent(tenant, 'org-structures/legal', {
      name: 'Legal',
      kind: 'legal_entity',
      mode: 'full',
      nodes: [
        { node_key: 'a', name: 'A', head: { email: 'ada@x.example' } },
        { node_key: 'b', name: 'B', head: { email: 'n/a', name: 'Bo' } },
      ],
    })
    expect(warnings).toEqual([['/nodes/1/head/email', 'unusable_address']])
    const rows = await parts().world.rows('select head from universe.node where tenant_id = $1 order by node_key', [
      tenant.tenantId,
    ])
    expect(rows.map(({ head }) => head)).toEqual([{ email: 'ada@x.example' }, { name: 'Bo' }])
  })

  test('in a push of test procedures, also where the same text stands for tester and reviewer', async () => {
    const tenant = admin()
    const warnings = await sent(tenant, 'test-procedures', [
      { external_id: '1', title: 'T', tester: { email: 'n/a' }, reviewer: { email: 'n/a' } },
      { external_id: '2', title: 'T', tester: { email: 'n/a' }, reviewer: { email: 'bo@x.example' } },
    ])
    expect(warnings.map(([pointer]) => pointer)).toEqual(['/0/tester/email', '/0/reviewer/email', '/1/tester/email'])
    const text = 'select tester, reviewer from universe.test_procedure where tenant_id = $1 order by external_id'
    expect(await parts().world.rows(text, [tenant.tenantId])).toEqual([
      { tester: { name: 'n/a' }, reviewer: null },
      { tester: { name: 'n/a' }, reviewer: { email: 'bo@x.example' } },
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
