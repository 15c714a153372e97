import { type Connector, type Run, runSchema } from '@postern/contracts'
import {
  type Principal,
  type TestDirectory,
  findDirectoryServer,
  findFreePort,
  makeTestFolder,
  startPostgres,
  startTestDirectory,
} from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { Attribute, Change, Client as LdapClient } from 'ldapts'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { useRuns } from './run-support.ts'
import { makeCertificate } from './source-server.ts'
import { admin } from './support.ts'

const { parts, work, create, now } = useRuns()
const outbound = openOutbound({ networks: ['127.0.0.1'], lookup: async () => [{ address: '127.0.0.1' }] })
const secret = 'a-password-of-the-reader'

/** Everything that the worker has logged. */
const logged: string[] = []
const logger = createLogger({ service: 'sync', level: 'trace', write: (line) => logged.push(line) })

/** Runs the connector, and answers what became of it; none of that, nor of the log, holds the password. */
async function run(tenant: Principal, { id }: Connector): Promise<Run> {
  const ask = async (method: string, path: string) => await parts().caller.call(tenant, method, path)
  const begun = runSchema.parse((await ask('POST', `/api/v1/connectors/${id}/runs`)).json)
  const before = logged.length
  await work(begun, { outbound, logger }, { isLast: true })
  expect(logged.length).toBeGreaterThan(before)
  const parted = ['', '/changes', '/errors'].map(
    async (part) => (await ask('GET', `/api/v1/sync-runs/${begun.id}${part}`)).text,
  )
  expect([...logged, ...(await Promise.all(parted))].filter((text) => text.includes(secret))).toEqual([])
  return await now(tenant, begun)
}

describe('a PostgreSQL of its own', () => {
  let server: Awaited<ReturnType<typeof startPostgres>>
  let erp: Client
  let certificate: { key: string; cert: string }

  beforeAll(async () => {
    certificate = await makeCertificate(['erp.test'])
    const home = await makeTestFolder('erp')
    server = await startPostgres({ home, port: await findFreePort(), password: 'of-the-superuser', durable: false })
    erp = new Client({ connectionString: server.superuserUrl('postgres') })
    await erp.connect()
    // Written by the server, which must own its key.
    for (const [name, text] of [
      ['server.crt', certificate.cert],
      ['server.key', certificate.key],
    ] as const) {
      await erp.query(
        `copy (select unnest(string_to_array('${text.trim()}', E'\n'))) to program 'umask 077 && tr -d "\\r" > ${name}'`,
      )
    }
    await erp.query('alter system set ssl = on')
    await erp.query('select pg_reload_conf()')
    await erp.query(`
      create role reader login password '${secret}';
      create table public.unit (key text primary key, above text, name text);
      insert into public.unit values ('A', null, 'Bank'), ('B', 'A', 'Treasury'), ('C', 'B', 'Desk');
      create view public.units as select * from public.unit;
      grant select on public.units to reader`)
  })
  afterAll(async () => {
    await erp?.end()
    await server?.stop()
  })

  test('is read over TLS into entities, and so are later changes', async () => {
    // Its settings are read again beside its sessions.
    await expect.poll(async () => (await erp.query('show ssl')).rows, { timeout: 20_000 }).toEqual([{ ssl: 'on' }])
    const tenant = admin()
    const config = {
      engine: 'postgres',
      host: 'erp.test',
      port: server.port,
      ca: certificate.cert,
      database: 'postgres',
      username: 'reader',
      view: 'units',
    }
    const mapping = [
      { target: 'external_id', source: 'key' },
      { target: 'parent_external_id', source: 'above' },
      { target: 'name', source: 'name' },
      { target: 'type', constant: 'department' },
    ]
    const connector = await create(tenant, { type: 'sql', config, mapping, secrets: { password: secret } })
    expect(await run(tenant, connector)).toMatchObject({ status: 'succeeded', counts: { created: 3, applied: 3 } })
    await erp.query(`update public.unit set name = 'Money market', above = 'A' where key = 'C'`)
    const changed = { created: 0, unchanged: 2, applied: 1, missing: 0 }
    expect(await run(tenant, connector)).toMatchObject({ status: 'succeeded', counts: changed })
    const text = `select e.external_id as key, above.external_id as above, e.name from universe.entity e
      left join universe.entity above on above.tenant_id = e.tenant_id and above.id = e.parent_id
      where e.tenant_id = $1 order by 1`
    expect(await parts().world.rows(text, [tenant.tenantId])).toEqual([
      { key: 'A', above: null, name: 'Bank' },
      { key: 'B', above: 'A', name: 'Treasury' },
      { key: 'C', above: 'A', name: 'Money market' },
    ])
    await erp.query(`alter role reader password 'another'`)
    expect(await run(tenant, connector)).toMatchObject({ status: 'failed', failure: { code: 'not_authorized' } })
  })
})

const program = await findDirectoryServer()
const suffix = 'dc=example,dc=test'
const roleOf = (name: string) =>
  `dn: cn=${name},${suffix}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: ${name}\nuserPassword: ${secret}`
const unitOf = (name: string, above: string) =>
  `dn: ou=${name},${above}${suffix}\nobjectClass: organizationalUnit\nou: ${name}`

describe.skipIf(typeof program === 'string')('a directory', () => {
  let directory: TestDirectory
  let certificate: { key: string; cert: string }

  beforeAll(async () => {
    if (typeof program === 'string') return
    certificate = await makeCertificate(['directory.test'])
    const ldif = [
      `dn: ${suffix}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example`,
      ...['reader', 'limited', 'writer'].map(roleOf),
      unitOf('Bank', ''),
      unitOf('Risk', 'ou=Bank,'),
      unitOf('Audit', 'ou=Bank,'),
      unitOf('Models', 'ou=Risk,ou=Bank,'),
      `dn: uid=ada,${suffix}\nobjectClass: inetOrgPerson\ncn: Ada\nsn: Lund\nmail: ada@x.example\ntitle: Auditor`,
      `dn: uid=mia,${suffix}\nobjectClass: inetOrgPerson\ncn: Mia\nsn: Falk\nmail: mia@x.example\nmail: falk@x.example`,
    ].join('\n\n')
    const [limited, writer] = [`cn=limited,${suffix}`, `cn=writer,${suffix}`]
    directory = await startTestDirectory(program, { suffix, ldif, limited, writer, ...certificate })
  })
  afterAll(async () => await directory?.stop())

  test('becomes a hierarchy, and only a unit that is moved there moves', async () => {
    const tenant = admin()
    const config = {
      host: 'directory.test',
      port: directory.tlsPort,
      ca: certificate.cert,
      bind_dn: `cn=reader,${suffix}`,
      base_dn: suffix,
      filter: '(objectClass=organizationalUnit)',
    }
    const connector = await create(tenant, {
      type: 'ldap',
      dataset: 'org_structure',
      hierarchy: { key: 'line', name: 'Line', kind: 'management' },
      config,
      mapping: [
        { target: 'node_key', source: 'key' },
        { target: 'parent_key', source: 'parent_key' },
        { target: 'name', source: 'ou' },
      ],
      missing_policy: 'deactivate',
      secrets: { password: secret },
    })
    const nodes = async () =>
      await parts().world.rows(
        `select n.name, above.name as above, n.status from universe.node n
          left join universe.node above on above.tenant_id = n.tenant_id and above.id = n.parent_id
          where n.tenant_id = $1 order by n.name`,
        [tenant.tenantId],
      )
    const [audit, bank, models, risk] = [
      { name: 'Audit', above: 'Bank', status: 'active' },
      { name: 'Bank', above: null, status: 'active' },
      { name: 'Models', above: 'Risk', status: 'active' },
      { name: 'Risk', above: 'Bank', status: 'active' },
    ]
    expect(await run(tenant, connector)).toMatchObject({ status: 'succeeded', counts: { created: 4, applied: 4 } })
    expect(await nodes()).toEqual([audit, bank, models, risk])
    const writer = new LdapClient({ url: `ldap://127.0.0.1:${directory.port}` })
    await writer.bind(`cn=writer,${suffix}`, secret)
    await writer.modifyDN(`ou=Risk,ou=Bank,${suffix}`, `ou=Risk,ou=Audit,ou=Bank,${suffix}`)
    await writer.unbind()
    const moved = { moved: 1, created: 0, missing: 0, deactivated: 0, unchanged: 3 }
    expect(await run(tenant, connector)).toMatchObject({ status: 'succeeded', counts: moved })
    expect(await nodes()).toEqual([audit, bank, models, { ...risk, above: 'Audit' }])
  })

  test('finds attributes in any case, and the first value of single and repeated ones', async () => {
    const tenant = admin()
    const connector = await create(tenant, {
      type: 'ldap',
      dataset: 'people',
      config: {
        host: 'directory.test',
        port: directory.tlsPort,
        ca: certificate.cert,
        bind_dn: `cn=reader,${suffix}`,
        base_dn: suffix,
        filter: '(objectClass=inetOrgPerson)',
        attributes: ['CN', 'MAIL', 'Title'],
        key_attribute: 'entryuuid',
      },
      mapping: [
        { target: 'external_id', source: 'EntryUuid' },
        { target: 'name', source: '/cn' },
        { target: 'email', source: '/Mail/0' },
        { target: 'title', source: 'title' },
      ],
      secrets: { password: secret },
    })
    expect(await run(tenant, connector)).toMatchObject({ status: 'succeeded', counts: { created: 2, invalid: 0 } })
    const people = async () =>
      await parts().world.rows(
        'select name, email, title, external_id from universe.person where tenant_id = $1 order by name',
        [tenant.tenantId],
      )
    const external_id: unknown = expect.stringMatching(/^[0-9a-f-]{36}$/)
    const mia = { name: 'Mia', email: 'mia@x.example', title: null, external_id }
    expect(await people()).toEqual([{ name: 'Ada', email: 'ada@x.example', title: 'Auditor', external_id }, mia])
    // A value that a pointer leads to decides, too, whether a row is looked at again.
    const writer = new LdapClient({ url: `ldap://127.0.0.1:${directory.port}` })
    await writer.bind(`cn=writer,${suffix}`, secret)
    const modification = new Attribute({ type: 'mail', values: ['lund@x.example'] })
    await writer.modify(`uid=ada,${suffix}`, new Change({ operation: 'replace', modification }))
    await writer.unbind()
    expect(await run(tenant, connector)).toMatchObject({ counts: { updated: 1, unchanged: 1 } })
    expect(await people()).toMatchObject([{ email: 'lund@x.example', title: 'Auditor' }, mia])
  })
})
