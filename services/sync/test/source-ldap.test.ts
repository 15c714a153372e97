import { type TestDirectory, findDirectoryServer, startTestDirectory } from '@postern/local-stack/testing'
import { once } from 'node:events'
import { createServer as createPlainServer } from 'node:net'
import { createServer } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import type { SourceRow } from '../src/source/types.ts'
import { expectToBeLeft } from './frozen-peer.ts'
import { makeCertificate } from './source-server.ts'
import { failureOf, readSource } from './source-support.ts'

const program = await findDirectoryServer()
if (typeof program === 'string') process.stdout.write(`reading a directory is not tested: ${program}\n`)

const suffix = 'dc=example,dc=test'
const reader = `cn=reader,${suffix}`
const limited = `cn=limited,${suffix}`
const password = 'a-password-of-the-reader'
const people = 120

/** The second unit has a comma in its name; its people are named before their units. */
const ldif = [
  `dn: ${suffix}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example`,
  `dn: ${reader}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\nuserPassword: ${password}`,
  `dn: ${limited}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: limited\nuserPassword: ${password}`,
  `dn: ou=Bank,${suffix}\nobjectClass: organizationalUnit\nou: Bank`,
  `dn: ou=Audit\\, Risk,ou=Bank,${suffix}\nobjectClass: organizationalUnit\nou: Audit, Risk`,
  ...Array.from(
    { length: people },
    (_, number) =>
      `dn: uid=p${number},ou=Audit\\, Risk,ou=Bank,${suffix}\nobjectClass: inetOrgPerson\nuid: p${number}\ncn: Person ${number}\nsn: ${number}\nmail: p${number}@example.test\nmail: second${number}@example.test`,
  ),
].join('\n\n')

describe.skipIf(typeof program === 'string')('a directory', () => {
  let directory: TestDirectory
  let certificate: { key: string; cert: string }
  const outbound = openOutbound({
    networks: ['127.0.0.1'],
    lookup: async () => [{ address: '127.0.0.1' }],
  })

  beforeAll(async () => {
    if (typeof program === 'string') return
    certificate = await makeCertificate(['directory.test'])
    directory = await startTestDirectory(program, { suffix, ldif, limited, ...certificate })
  })
  afterAll(async () => await directory?.stop())

  const config = (fields: object = {}): object => ({
    host: 'directory.test',
    port: directory.tlsPort,
    ca: certificate.cert,
    bind_dn: reader,
    base_dn: suffix,
    page_size: 40,
    ...fields,
  })
  const secrets = { password }
  const refusal = async (fields: object, given: Record<string, string> = secrets): Promise<string> =>
    (await failureOf('ldap', { config: config(fields), secrets: given, outbound })).code
  const bounded = async (limits: object, fields: object = {}): Promise<string> =>
    (await failureOf('ldap', { config: config(fields), secrets, outbound, limits })).code
  const rows = async (fields: object): Promise<SourceRow['values'][]> => {
    const items = await readSource('ldap', { config: config(fields), secrets, outbound })
    return items.map((item) => (item.kind === 'row' ? item.values : expect.fail(item.message)))
  }

  test('is not read with a wrong password, nor below a missing entry', async () => {
    expect(await refusal({}, { password: 'wrong' })).toBe('not_authorized')
    expect(await refusal({}, {})).toBe('secret_missing')
    expect(await refusal({ base_dn: `ou=Nowhere,${suffix}` })).toBe('not_found')
  })

  test('is not read if its certificate is not trusted or has another name', async () => {
    for (const encryption of ['ldaps', 'starttls']) {
      const port = encryption === 'ldaps' ? directory.tlsPort : directory.port
      expect(await refusal({ encryption, port, ca: undefined }), encryption).toBe('certificate_not_trusted')
      expect(await refusal({ encryption, port, host: 'other.test' }), encryption).toBe('certificate_not_trusted')
    }
  })

  test('is not read over LDAPS if the server does not speak TLS', async () => {
    const mail = createPlainServer((socket) => void socket.on('error', () => undefined).end('220 mail.test ESMTP\r\n'))
    mail.listen(0, '127.0.0.1')
    await once(mail, 'listening')
    const address = mail.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const failure = await failureOf('ldap', { config: config({ port }), secrets, outbound })
    expect(failure).toMatchObject({ code: 'not_encrypted', retryable: false })
    mail.close()
  })

  test('is not read at an address that is not allowed', async () => {
    const options = { config: config({ host: '2130706433' }), secrets, outbound: openOutbound({ networks: [] }) }
    expect((await failureOf('ldap', options)).code).toBe('address_not_allowed')
  })

  test('is never read incompletely: fewer entries than exist are a failure', async () => {
    expect(await refusal({ bind_dn: limited })).toBe('size_limit')
    expect(await rows({ filter: '(objectClass=inetOrgPerson)' })).toHaveLength(people)
  })

  test('is not read further than the limits', async () => {
    expect(await bounded({ maxRows: 10 })).toBe('too_many_rows')
    expect(await bounded({ maxBytes: 10_000 })).toBe('source_too_large')
    expect(await bounded({ maxPageBytes: 5_000 })).toBe('page_too_large')
    const started = { encryption: 'starttls', port: directory.port }
    expect(await bounded({ maxBytes: 10_000 }, started)).toBe('source_too_large')
    expect(await bounded({ maxPageBytes: 5_000 }, started)).toBe('page_too_large')
  })

  test('is cut if it never answers or never ends', async () => {
    let said: Buffer | undefined
    const server = createServer(certificate, (socket) => {
      socket.on('error', () => undefined)
      if (said === undefined) return
      // The head of a message of a gigabyte.
      socket.write(Buffer.from([0x30, 0x84, 0x40, 0, 0, 0]))
      const more = (): void => void socket.write(said ?? '', () => setImmediate(more))
      more()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : undefined
    try {
      expect(await bounded({ maxSilenceMs: 200 }, { port })).toBe('source_too_slow')
      said = Buffer.alloc(10_000)
      expect(await bounded({ maxPageBytes: 1_000_000 }, { port })).toBe('page_too_large')
    } finally {
      server.close()
    }
  })

  test.each([
    ['says nothing', 'ldaps', ''],
    ['freezes amid its TLS', 'ldaps', 'directory.test'],
    ['says nothing', 'starttls', ''],
    ['freezes at the question for TLS', 'starttls', '1.3.6.1.4.1.1466.20037'],
    ['freezes amid the change to TLS', 'starttls', 'directory.test'],
    // Messages of client and server after the key exchange (RFC 8446 §5.2).
    ['freezes once it is over TLS', 'starttls', '\u0017\u0003\u0003'],
  ])('is cut if it %s (%s): after silence, at the time limit and on cancellation', async (_, encryption, text) => {
    const port = encryption === 'ldaps' ? directory.tlsPort : directory.port
    const optionsAt = (at: number) => ({ config: config({ encryption, port: at }), secrets, outbound })
    await expectToBeLeft('ldap', { port, text }, optionsAt)
  })

  test('rejects an invalid filter', async () => {
    await expect(rows({ filter: '(objectClass=*' })).rejects.toThrow('RFC 4515')
  })

  test('returns its units as a hierarchy, over LDAPS and StartTLS', async () => {
    const units = await rows({ filter: '(objectClass=organizationalUnit)' })
    const [bank, audit] = units
    expect(units).toHaveLength(2)
    expect(bank).toMatchObject({ ou: 'Bank', parent_key: null })
    expect(audit).toMatchObject({ ou: 'Audit, Risk', parent_key: bank?.['key'] })
    expect(audit?.['key']).toMatch(/^[0-9a-f-]{36}$/)
    const started = await rows({
      filter: '(objectClass=organizationalUnit)',
      encryption: 'starttls',
      port: directory.port,
    })
    expect(started).toEqual(units)
  })

  test('returns its people, in pages, each with its unit', async () => {
    const [, audit] = await rows({ filter: '(objectClass=organizationalUnit)' })
    const found = await rows({ filter: '(uid=*)', attributes: ['uid', 'mail'] })
    expect(found).toHaveLength(people)
    expect(new Set(found.map(({ key }) => key)).size).toBe(people)
    expect(new Set(found.map(({ parent_key: parent }) => parent))).toEqual(new Set([audit?.['key']]))
    expect(found[0]).toMatchObject({ uid: 'p0', mail: ['p0@example.test', 'second0@example.test'] })
  })

  test('returns attributes in the requested and in the server’s spelling', async () => {
    const [first] = await rows({ filter: '(uid=p0)', attributes: ['CN', 'MAIL', 'mobile'], key_attribute: 'ENTRYUUID' })
    expect(first).toMatchObject({ CN: 'Person 0', cn: 'Person 0', MAIL: ['p0@example.test', 'second0@example.test'] })
    expect(first?.['key']).toMatch(/^[0-9a-f-]{36}$/)
    expect(first).not.toHaveProperty('mobile')
  })

  test('names an entry without a key', async () => {
    const [item] = await readSource('ldap', {
      config: config({ key_attribute: 'objectGUID', filter: '(ou=Bank)' }),
      secrets,
      outbound,
    })
    expect(item).toMatchObject({ kind: 'error', code: 'key_missing', field: 'objectGUID' })
  })
})
