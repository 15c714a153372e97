import { once } from 'node:events'
import { createServer } from 'node:net'
import { type TestMariadb, findMariadbServer, startTestMariadb } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import type { SourceItem } from '../src/source/types.ts'
import { expectToBeLeft, startFrozenPeer } from './frozen-peer.ts'
import { makeCertificate } from './source-server.ts'
import { failureOf, openSource, readColumns, readSource } from './source-support.ts'

const program = await findMariadbServer()
if (typeof program === 'string') process.stdout.write(`reading MariaDB is not tested: ${program}\n`)

const password = 'a-password-of-the-reader'
const statements = [
  'create database erp character set utf8mb4;',
  'use erp;',
  // The superuser cannot own a readable view.
  `create user owner@'%' identified by 'another-password';`,
  `grant all on erp.* to owner@'%';`,
  'create table unit (id bigint primary key, name varchar(80), opened date, budget decimal(12,2), at timestamp, active boolean, paid bit(1), flags bit(4), note text);',
  `set time_zone = '+00:00';`,
  `insert into unit select 9007199254740993 + seq, concat('Unit ', seq, ' ☂'), '2026-03-29', 0.1 + seq, '2026-03-29 02:30:00', true, seq % 2, b'0011', null from seq_1_to_1200;`,
  `create definer = owner@'%' view units as select * from unit order by id;`,
  `create definer = owner@'%' view slow as select id, sleep(60) as name from unit;`,
  `create definer = owner@'%' view \`long\` as select 1 as id, repeat('x', 200000) as name union all select 2, 'short';`,
  `create definer = owner@'%' function write_unit() returns varchar(80) modifies sql data begin insert into unit (id, name) values (1, 'x'); return 'x'; end;`,
  `create definer = owner@'%' view writing as select write_unit() as name;`,
  `create definer = owner@'%' view beyond as select id, 9223372036854775807 + id as sum from unit;`,
  `create definer = owner@'%' view several as select (select id from unit) as id;`,
  'create table hidden (id integer);',
  'create table empty (`ID` integer, title text);',
  'create table level (n tinyint(1));',
  'create table wiki (id int, title varbinary(255), note blob, flags bit(8), stamp binary(3), digest binary(2), doc json);',
  `insert into wiki values (1, convert('Müller' using utf8mb4), convert('Zoë' using utf8mb4), b'00000101', 'abc', x'ff00', '{"a":"ü"}');`,
  "insert into wiki values (2, null, x'00', null, null, null, null);",
  'insert into level values (0), (1), (2), (-1), (127), (null);',
  `create user reader@'%' identified by '${password}';`,
  `grant select on erp.units to reader@'%';`,
  `grant select on erp.wiki to reader@'%';`,
  `grant select on erp.slow to reader@'%';`,
  `grant select on erp.writing to reader@'%';`,
  `grant select on erp.level to reader@'%';`,
  `grant select on erp.empty to reader@'%';`,
  `grant select on erp.beyond to reader@'%';`,
  `grant select on erp.several to reader@'%';`,
  `grant select on erp.\`long\` to reader@'%';`,
]

/** A packet of MariaDB: the length of what it holds, and its number. */
function packet(number: number, content: string): Buffer {
  const bytes = Buffer.from(content, 'latin1')
  const head = Buffer.alloc(4, number)
  head.writeUIntLE(bytes.length, 0, 3)
  return Buffer.concat([head, bytes])
}

test.each(['client_ed25519', 'dialog', 'mysql_clear_password'])(
  'a server that requires %s is not retried, and the message names the sign-in',
  async (plugin) => {
    const salt = '12345678'
    const greeting = `\n10.11-MariaDB\0\u0001\0\0\0${salt}\0\xff\xf7-\u0002\0\xff\x81\u0015${'\0'.repeat(10)}${salt}1234\0mysql_native_password\0`
    const server = createServer((client) => {
      client.on('error', () => undefined).write(packet(0, greeting))
      client.once('data', () => client.write(packet(2, `\xfe${plugin}\0${salt}`)))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const config = { engine: 'mariadb', host: '127.0.0.1', port, database: 'erp', username: 'reader', view: 'units' }
    const outbound = openOutbound({ networks: ['127.0.0.1'] })
    try {
      const failure = await failureOf('sql', {
        config: { ...config, encryption: 'none' },
        secrets: { password },
        outbound,
      })
      expect([failure.code, failure.retryable]).toEqual(['not_authorized', false])
      expect(failure.message).toContain('a kind of sign-in that is not supported')
    } finally {
      server.close()
    }
  },
)

describe.skipIf(typeof program === 'string')('a view of MariaDB', () => {
  let mariadb: TestMariadb
  let certificate: { key: string; cert: string }
  const outbound = openOutbound({ networks: ['127.0.0.1'], lookup: async () => [{ address: '127.0.0.1' }] })

  beforeAll(async () => {
    if (typeof program === 'string') return
    certificate = await makeCertificate(['erp.test'])
    mariadb = await startTestMariadb(program, {
      statements,
      tls: certificate,
    })
  })
  afterAll(async () => await mariadb?.stop())

  function options(fields: object = {}, more: object = {}) {
    const where = { engine: 'mariadb', host: 'erp.test', port: mariadb.port, database: 'erp', username: 'reader' }
    return {
      config: { ...where, view: 'units', ca: certificate.cert, ...fields },
      secrets: { password },
      outbound,
      ...more,
    }
  }
  const refusal = async (fields: object, more: object = {}): Promise<string> =>
    (await failureOf('sql', options(fields, more))).code

  test('is not read if reading it would write', async () => {
    expect(await refusal({ view: 'writing' })).toBe('answer_refused')
    // The row that it would have written is missing.
    expect((await readSource('sql', options())).length).toBe(1200)
  })

  test('is not read at an address that is not allowed', async () => {
    const closed = openOutbound({ networks: [], lookup: async () => [{ address: '127.0.0.1' }] })
    expect(await refusal({}, { outbound: closed })).toBe('address_not_allowed')
    expect(await refusal({ host: '2130706433' }, { outbound: openOutbound({ networks: [] }) })).toBe(
      'address_not_allowed',
    )
  })

  test('is not read with a wrong password, which is not in the message', async () => {
    const failure = await failureOf('sql', options({}, { secrets: { password: 'wrong-password' } }))
    expect([failure.code, failure.retryable]).toEqual(['not_authorized', false])
    expect(failure.message).not.toContain('wrong-password')
  })

  test('is not read if it does not exist or the account lacks the right', async () => {
    expect(await refusal({ columns: ['id', 'nothing'] })).toBe('not_found')
    expect(await refusal({ view: 'hidden' })).toBe('not_authorized')
    expect(await refusal({ database: 'nowhere' })).toBe('not_authorized')
    await expect(readSource('sql', options({ view: 'units`; drop table unit; --' }))).rejects.toThrow(
      'must be the name',
    )
  })

  test('is not read from a server whose certificate is not trusted, or is that of another name', async () => {
    for (const [fields, why] of [
      [{ ca: (await makeCertificate(['erp.test'])).cert }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
      [{ ca: undefined }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
      [{ host: 'other.test' }, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ] as const) {
      const { code, message } = await failureOf('sql', options(fields))
      // Told as of any other source, and nothing of what Node advises who runs it.
      const host = 'host' in fields ? fields.host : 'erp.test'
      const said = `the certificate of ${host} is not trusted (${why}): fix it, or set \`ca\``
      expect([code, message]).toEqual(['certificate_not_trusted', said])
    }
  })

  test('is not read if the server disconnects or does not speak TLS', async () => {
    for (const [said, code, retryable] of [
      ['', 'source_unreachable', true],
      ['HTTP/1.1 400 Bad Request\r\n\r\n', 'not_encrypted', false],
    ] as const) {
      const peer = await startFrozenPeer({ port: mariadb.port, text: 'erp.test' })
      const reading = failureOf('sql', options({ port: peer.port }))
      await peer.frozen()
      for (const client of peer.open) client.end(said)
      expect(await reading).toMatchObject({ code, retryable })
      peer.close()
    }
  })

  test('is not read if it fails on a value of a row, and says so', async () => {
    for (const [view, name] of [
      ['beyond', 'ER_DATA_OUT_OF_RANGE'],
      ['several', 'ER_SUBQUERY_NO_1_ROW'],
    ]) {
      const { code, retryable, message } = await failureOf('sql', options({ view }))
      expect([code, retryable]).toEqual(['answer_refused', false])
      expect(message).toContain(`the view fails on a value of one of its rows (${name}): fix the view`)
    }
  })

  test('is not read without encryption at an address that is not listed', async () => {
    const open = openOutbound({ networks: [], lookup: async () => [{ address: '1.1.1.1' }] })
    expect(await refusal({ encryption: 'none' }, { outbound: open })).toBe('not_encrypted')
  })

  test('is not read for longer than the limit, nor without an answer', async () => {
    expect(await refusal({ view: 'slow' }, { limits: { maxSilenceMs: 300 } })).toBe('source_too_slow')
    expect(await refusal({}, { limits: { maxBytes: 10_000 } })).toBe('source_too_large')
    expect(await refusal({ view: 'long' }, { limits: { maxPageBytes: 100_000 } })).toBe('page_too_large')
    const nobody = await failureOf('sql', options({ port: 1 }))
    expect([nobody.code, nobody.retryable]).toEqual(['source_unreachable', true])
  })

  test.each([
    ['says nothing', '', 'none'],
    ['freezes amid the sign-in', 'reader', 'none'],
    ['freezes amid the change to TLS', 'erp.test', 'tls'],
    ['freezes at the first question', 'time_zone', 'none'],
    ['freezes at the beginning of the transaction', 'start transaction', 'none'],
    ['freezes at the rows', 'select', 'none'],
    ['freezes amid the rows', 'Unit 20', 'none'],
  ])('is cut if its server %s: after silence, at the time limit and on cancellation', async (_, text, encryption) => {
    await expectToBeLeft('sql', { port: mariadb.port, text }, (port) => options({ port, encryption }))
  })

  test('is a failure at once if its connection breaks during the rows', async () => {
    const peer = await startFrozenPeer({ port: mariadb.port, text: 'Unit 20' })
    const reading = failureOf('sql', options({ port: peer.port, encryption: 'none' }))
    await peer.frozen()
    peer.close()
    expect(await reading).toMatchObject({ code: 'source_unreachable', retryable: true })
  })

  test('is read completely over TLS, with unchanged numbers, days and times', async () => {
    const items = await readSource('sql', options())
    expect(items).toHaveLength(1200)
    expect(items[0]).toEqual({
      kind: 'row',
      row: 1,
      values: {
        id: '9007199254740994',
        name: 'Unit 1 ☂',
        opened: '2026-03-29',
        budget: '1.10',
        at: '2026-03-29 02:30:00',
        active: true,
        paid: true,
        flags: '3',
        note: null,
      },
    })
    expect(items[1]).toMatchObject({ values: { paid: false } })
  })

  test('is read with bytes that are text as text, other bytes in hexadecimal, and bits as a number', async () => {
    const items = await readSource('sql', options({ view: 'wiki' }))
    expect(items.map(({ values }) => values)).toEqual([
      { id: '1', title: 'Müller', note: 'Zoë', flags: '5', stamp: 'abc', digest: '0xff00', doc: '{"a":"ü"}' },
      { id: '2', title: null, note: '0x00', flags: null, stamp: null, digest: null, doc: null },
    ])
  })

  test('is read with booleans for 0 and 1 only, because the type holds any small number', async () => {
    const items = await readSource('sql', options({ view: 'level' }))
    expect(items.map((item) => item.values?.['n'])).toEqual([false, true, '2', '-1', '127', null])
  })

  test('is read in the columns that are named, with a long value as an error of its row', async () => {
    const [first] = await readSource('sql', options({ columns: ['name'], encryption: 'none' }))
    expect(first).toMatchObject({ values: { name: 'Unit 1 ☂' } })
    const [long, short] = await readSource('sql', options({ view: 'long' }))
    expect(long).toMatchObject({ kind: 'error', row: 1, field: 'name', code: 'value_too_long' })
    expect(short).toMatchObject({ kind: 'row', row: 2 })
  })

  test('is read with its columns if it has no rows', async () => {
    expect(await readSource('sql', options({ view: 'empty' }))).toEqual([])
    expect(await readColumns('sql', options({ view: 'empty' }))).toEqual([['ID', 'title']])
    expect(await readColumns('sql', options({ view: 'empty', columns: ['id', 'TITLE'] }))).toEqual([['id', 'TITLE']])
  })

  test('is read as far as its reader asks', async () => {
    const taken: SourceItem[] = []
    for await (const item of openSource('sql', options())) {
      taken.push(item)
      if (taken.length === 3) break
    }
    expect(taken).toHaveLength(3)
  })
})
