import { once } from 'node:events'
import { type Socket, connect, createServer } from 'node:net'
import { pipeline } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { Client, escapeIdentifier } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import type { SourceItem } from '../src/source/types.ts'
import { expectToBeLeft, startFrozenPeer } from './frozen-peer.ts'
import { makeCertificate } from './source-server.ts'
import { failureOf, openSource, readColumns, readSource } from './source-support.ts'

let database: TestDatabase
let admin: Client
let where: { host: string; port: number; database: string }
let reader: { username: string; password: string }
const outbound = openOutbound({ networks: ['127.0.0.1'] })

beforeAll(async () => {
  database = await createTestDatabase()
  admin = new Client({ connectionString: database.url('superuser') })
  await admin.connect()
  const url = new URL(database.url('superuser'))
  where = { host: url.hostname, port: Number(url.port), database: url.pathname.slice(1) }
  // Roles are of the whole server, which other test files use as well.
  reader = { username: `erp_${database.name}`, password: 'a-password-of-the-reader' }
  await admin.query(`create role ${escapeIdentifier(reader.username)} login password '${reader.password}'`)
  await admin.query(`
    grant connect on database ${escapeIdentifier(database.name)} to ${escapeIdentifier(reader.username)};
    create schema erp;
    create table erp.unit (id bigint, name text, opened date, budget numeric, at timestamptz, active boolean, tags jsonb);
    insert into erp.unit
    select 9007199254740993 + n, 'Unit ' || n, date '2026-03-29', 0.1 + n, timestamptz '2026-03-29 02:30+00', true, '["a"]'
    from generate_series(1, 1200) as n;
    create view erp.units as select * from erp.unit order by id;
    create view erp.slow as select id, pg_sleep(60)::text as name from erp.unit;
    create function erp.write() returns text language sql as $$ insert into erp.unit (name) values ('x') returning name $$;
    create view erp.writing as select erp.write() as name;
    create view erp.long as select 1 as id, repeat('x', 200000) as name union all select 2, 'short';
    create view erp.nested as
      select 1 as id, (repeat('[', 100) || repeat(']', 100))::json as tags
      union all select 2, '{"number": 12345678901234567890}';
    create view erp.deep as select (repeat('[', 100) || repeat(']', 100))::json as tags from generate_series(1, 100);
    create view erp.dividing as select id, 1 / (id - 9007199254740995) as part from erp.unit;
    create view erp.several as select (select id from erp.unit) as id;
    create view erp.forms as select date '2026-03-04' as day, timestamptz '2026-03-29 02:30+00' as at,
      interval '1 year 2 days 03:04' as span, '\\xdeadbeef'::bytea as bytes;
    create table erp.hidden (id integer);
    create table erp.empty ("ID" integer, title text);
    create view erp.decomposed as select 1 as "gro\u0308\u00dfe" where false;
    create view erp.decomposed_row as select 1 as "gro\u0308\u00dfe";
    grant usage on schema erp to ${escapeIdentifier(reader.username)};
    grant select on erp.decomposed, erp.decomposed_row, erp.units, erp.slow, erp.writing, erp.long, erp.nested, erp.deep, erp.empty, erp.dividing, erp.several, erp.forms to ${escapeIdentifier(reader.username)};
    grant insert, select on erp.unit to ${escapeIdentifier(reader.username)}`)
})
afterAll(async () => {
  await admin.query(`drop owned by ${escapeIdentifier(reader.username)}`)
  await admin.query(`drop role ${escapeIdentifier(reader.username)}`)
  await admin.end()
  await database.drop()
})

function options(fields: object = {}, more: object = {}) {
  const { username, password } = reader
  const config = { engine: 'postgres', ...where, username, schema: 'erp', view: 'units', encryption: 'none', ...fields }
  return { config, secrets: { password }, outbound, ...more }
}

async function refusal(fields: object, more: object = {}): Promise<string> {
  return (await failureOf('sql', options(fields, more))).code
}

describe('a column of JSON', () => {
  test('keeps its digits, and is an error of its row if it is nested too deep', async () => {
    expect(await readSource('sql', options({ view: 'nested' }))).toMatchObject([
      {
        kind: 'error',
        row: 1,
        field: 'tags',
        code: 'nested_too_deep',
        message: expect.any(String),
        values: { id: '1' },
      },
      { kind: 'row', row: 2, values: { id: '2', tags: { number: '12345678901234567890' } } },
    ])
  })
})

describe('a view of a database is not read', () => {
  test('with a wrong password, which is not in the message', async () => {
    const failure = await failureOf('sql', options({}, { secrets: { password: 'wrong-password' } }))
    expect(failure.code).toBe('not_authorized')
    expect(failure.message).not.toContain('wrong-password')
    expect(await refusal({}, { secrets: {} })).toBe('secret_missing')
  })

  test('when it does not exist or the account lacks the right', async () => {
    expect(await refusal({ view: 'nothing' })).toBe('not_found')
    expect(await refusal({ columns: ['id', 'nothing'] })).toBe('not_found')
    expect(await refusal({ database: 'nowhere' })).toBe('not_found')
    expect(await refusal({ view: 'hidden' })).toBe('not_authorized')
  })

  test('under a name that is not a plain identifier', async () => {
    for (const view of ['units; drop table erp.unit', 'units"', 'a.b', '']) {
      await expect(readSource('sql', options({ view })), view).rejects.toThrow('must be the name')
    }
  })

  test('at an address that is not allowed, or without encryption at one that is not listed', async () => {
    const none = openOutbound({ networks: [] })
    expect(await refusal({ host: '2130706433' }, { outbound: none })).toBe('address_not_allowed')
    expect(
      await refusal(
        { host: 'public.test' },
        { outbound: openOutbound({ networks: [], lookup: async () => [{ address: '1.1.1.1' }] }) },
      ),
    ).toBe('not_encrypted')
    expect(await refusal({ encryption: 'tls' })).toBe('not_encrypted')
  })

  test('when reading it would write', async () => {
    expect(await refusal({ view: 'writing' })).toBe('answer_refused')
    const { rows } = await admin.query<{ count: string }>(`select count(*) from erp.unit where name = 'x'`)
    expect(rows).toEqual([{ count: '0' }])
  })

  test('when it fails on a value of a row, and says so', async () => {
    for (const [view, state] of [
      ['dividing', '22012'],
      ['several', '21000'],
    ]) {
      const { code, retryable, message } = await failureOf('sql', options({ view }))
      expect([code, retryable]).toEqual(['answer_refused', false])
      expect(message).toContain(`the view fails on a value of one of its rows (${state}): fix the view`)
    }
  })

  test('for longer than the limit', async () => {
    expect(await refusal({ view: 'slow' }, { limits: { maxSilenceMs: 100 } })).toBe('source_too_slow')
  })

  test('further than the limits, whatever its rows hold', async () => {
    expect(await refusal({}, { limits: { maxBytes: 10_000 } })).toBe('source_too_large')
    expect(await refusal({ view: 'deep' }, { limits: { maxBytes: 10_000 } })).toBe('source_too_large')
    expect(await refusal({ view: 'long' }, { limits: { maxPageBytes: 100_000 } })).toBe('page_too_large')
    expect(await readSource('sql', options({}, { limits: { maxPageBytes: 10_000 } }))).toHaveLength(1200)
  })
})

async function countBusySessions(): Promise<number> {
  const { rowCount } = await admin.query(`select from pg_stat_activity where usename = $1 and state <> 'idle'`, [
    reader.username,
  ])
  return rowCount ?? -1
}

describe('a view of a database is read', () => {
  test('completely, with unchanged numbers, days and times', async () => {
    const items = await readSource('sql', options())
    expect(items).toHaveLength(1200)
    expect(items[0]).toEqual({
      kind: 'row',
      row: 1,
      values: {
        id: '9007199254740994',
        name: 'Unit 1',
        opened: '2026-03-29',
        budget: '1.1',
        at: '2026-03-29 02:30:00+00',
        active: true,
        tags: ['a'],
      },
    })
  })

  test('with days, times, spans and bytes in one form, whatever the server, the database or the role has set', async () => {
    const role = escapeIdentifier(reader.username)
    const set = ["datestyle = 'German'", "intervalstyle = 'iso_8601'", "bytea_output = 'escape'"]
    for (const setting of set) await admin.query(`alter role ${role} set ${setting}`)
    try {
      const [first] = await readSource('sql', options({ view: 'forms' }))
      expect(first?.values).toEqual({
        day: '2026-03-04',
        at: '2026-03-29 02:30:00+00',
        span: '1 year 2 days 03:04:00',
        bytes: String.raw`\xdeadbeef`,
      })
    } finally {
      await admin.query(`alter role ${role} reset all`)
    }
  })

  test('in the columns that are named', async () => {
    const [item] = await readSource('sql', options({ columns: ['name'] }))
    expect(item).toMatchObject({ values: { name: 'Unit 1' } })
  })

  test('with its columns if it has no rows', async () => {
    expect(await readSource('sql', options({ view: 'empty' }))).toEqual([])
    expect(await readColumns('sql', options({ view: 'empty' }))).toEqual([['ID', 'title']])
    expect(await readColumns('sql', options({ view: 'empty', columns: ['title'] }))).toEqual([['title']])
  })

  test('with composed names of its columns (NFC), with rows and without', async () => {
    const composed = 'gr\u00f6\u00dfe'
    expect(await readColumns('sql', options({ view: 'decomposed' }))).toEqual([[composed]])
    const [row] = await readSource('sql', options({ view: 'decomposed_row' }))
    expect(Object.keys(row?.values ?? {})).toEqual([composed])
  })

  test('with a value that is too long as an error of its row', async () => {
    const [long, short] = await readSource('sql', options({ view: 'long' }))
    expect(long).toMatchObject({ kind: 'error', row: 1, field: 'name', code: 'value_too_long' })
    expect(short).toMatchObject({ kind: 'row', row: 2 })
  })

  test('as far as its reader asks, and its connection is then closed', async () => {
    const taken: SourceItem[] = []
    for await (const item of openSource('sql', options())) {
      taken.push(item)
      if (taken.length === 3) break
    }
    expect(taken).toHaveLength(3)
    await expect.poll(countBusySessions, { timeout: 20_000 }).toBe(0)
  })
})

/** Ends TLS before the server, as the server itself would: after the request for it (PostgreSQL §54.2.11). */
async function startTlsBefore(port: number, certificate: { key: string; cert: string }) {
  const server = createServer((client) => {
    client.on('error', () => undefined)
    client.once('data', () => {
      client.write('S')
      const secured = new TLSSocket(client, { isServer: true, ...certificate })
      const behind = connect(port, '127.0.0.1')
      pipeline(secured, behind, () => undefined)
      pipeline(behind, secured, () => undefined)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('it listens nowhere')
  return { port: address.port, close: () => server.close() }
}

/** Passes on what the server answers, and does `then` behind the first bytes that have `text` in them. */
async function startAnswersBefore(port: number, text: string, then: (client: Socket) => void) {
  const server = createServer((client: Socket) => {
    const behind: Socket = connect(port, '127.0.0.1')
    client.on('error', () => void behind.destroy())
    client.on('close', () => void behind.destroy())
    client.pipe(behind)
    behind.on('error', () => void client.destroy())
    behind.on('data', (bytes) => {
      client.write(bytes)
      if (!bytes.includes(text)) return
      behind.removeAllListeners('data')
      behind.pause()
      then(client)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('it listens nowhere')
  return { port: address.port, close: () => server.close() }
}

const endIt = (client: Socket): void => void client.end()

test.each([
  ['ends between two parts of the view', 'Unit 20', endIt, 'source_unreachable'],
  ['ends behind the last row', 'SELECT 2', endIt, 'source_unreachable'],
  ['stands still', 'Unit 20', (): void => undefined, 'source_too_slow'],
] as const)('a view is not waited for whose connection %s', async (_what, text, then, code) => {
  const view = text.startsWith('SELECT') ? 'nested' : 'units'
  const before = await startAnswersBefore(where.port, text, then)
  try {
    expect(await refusal({ port: before.port, view }, { limits: { maxSilenceMs: 2000 } })).toBe(code)
  } finally {
    before.close()
  }
})

test.each([
  ['amid the sign-in', 'default_transaction_read_only'],
  ['at the beginning of the transaction', 'begin transaction'],
  ['at the rows', 'select *'],
  ['amid the rows', 'Unit 20'],
  ['at the end of the transaction', 'commit'],
])(
  'the read of a view whose server freezes %s ends after silence, at the time limit and on cancellation',
  async (_, text) => {
    await expectToBeLeft('sql', { port: where.port, text }, (port) => options({ port }))
  },
)

const messageOf = (kind: string, content: string): Buffer => {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length + 4)
  return Buffer.concat([Buffer.from(kind), length, Buffer.from(content, 'latin1')])
}
const [signedIn, begun] = [
  Buffer.concat([messageOf('R', '\0\0\0\0'), messageOf('Z', 'I')]),
  Buffer.concat([messageOf('C', 'BEGIN\0'), messageOf('Z', 'T')]),
]
const columns = messageOf('T', `\0\u0001tags\0${'\0'.repeat(6)}\0\0\0\u0072${'\0'.repeat(8)}`)
/** Reads from a server that answers what it is sent with one of these after the other. */
const codeOfAnswers = async (answers: readonly Buffer[]): Promise<string> => {
  const server = createServer((client) => {
    const left = [...answers]
    client.on('error', () => undefined).on('data', () => client.write(left.shift() ?? ''))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  try {
    return await refusal({ port }, { limits: { maxSilenceMs: 20_000 } })
  } finally {
    server.close()
  }
}

describe('an invalid PostgreSQL message ends only the read:', () => {
  test.each([
    ['a sign-in with Kerberos', messageOf('R', '\0\0\0\u0007'), 'not_authorized'],
    ['a sign-in with nothing', messageOf('R', ''), 'answer_broken'],
    ['an error that has no end', messageOf('E', 'SFATAL'), 'answer_broken'],
    ['another protocol', Buffer.from('SSH-2.0-OpenSSH_9.2\r\n'), 'answer_broken'],
  ])('%s', async (_what, answer, code) => {
    expect(await codeOfAnswers([answer])).toBe(code)
  })

  test.each([
    ['columns that are cut off', messageOf('T', '\0\u0005')],
    ['a row that is cut off', Buffer.concat([columns, messageOf('D', '\0\u0001\0\0\u0001\0x')])],
    [
      'a row of more cells than there are columns',
      Buffer.concat([columns, messageOf('D', '\0\u0002\0\0\0\u00011\0\0\0\u00012')]),
    ],
    ['JSON that is none', Buffer.concat([columns, messageOf('D', '\0\u0001\0\0\0\u0001{')])],
    ['a question for what is to be copied', messageOf('G', '\0\0\0')],
  ])('%s', async (_what, answer) => {
    expect(await codeOfAnswers([signedIn, begun, answer])).toBe('answer_broken')
  })
})

test('a view is read although its server freezes after the last row', async () => {
  // It is what a client says at its end (PostgreSQL §54.7).
  const peer = await startFrozenPeer({ port: where.port, text: 'X\0\0\0\u0004' })
  try {
    expect(await readSource('sql', options({ port: peer.port }))).toHaveLength(1200)
    await expect.poll(() => peer.open.size, { timeout: 20_000 }).toBe(0)
  } finally {
    peer.close()
  }
})

test('a view is read over TLS, from a server whose certificate is trusted and has its name', async () => {
  const certificate = await makeCertificate(['erp.test'])
  const secured = await startTlsBefore(where.port, certificate)
  const named = openOutbound({ networks: ['127.0.0.1'], lookup: async () => [{ address: '127.0.0.1' }] })
  const over = { host: 'erp.test', port: secured.port, encryption: 'tls', ca: certificate.cert }
  try {
    const { cert: other } = await makeCertificate(['erp.test'])
    expect(await refusal({ ...over, ca: other }, { outbound: named })).toBe('certificate_not_trusted')
    expect(await refusal({ ...over, host: 'other.test' }, { outbound: named })).toBe('certificate_not_trusted')
    const few = { outbound: named, limits: { maxBytes: 10_000 } }
    expect(await refusal(over, few)).toBe('source_too_large')
    const items = await readSource('sql', options({ ...over, columns: ['name'] }, { outbound: named }))
    expect([items.length, items[0]]).toMatchObject([1200, { values: { name: 'Unit 1' } }])
  } finally {
    secured.close()
  }
})
