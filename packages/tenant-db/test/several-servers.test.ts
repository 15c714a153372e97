import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type Socket, connect as connectTo, createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect } from '../src/connect.ts'
import { type TenantTables, addParent, createTenantTables, names, openClient, sql } from './tenant-tables.ts'

let tables: TenantTables

beforeAll(async () => {
  tables = await createTenantTables()
  // A transaction stays open during other waits on a busy machine.
  await asSuperuser(
    `alter role postern_findings in database ${tables.database.name} set idle_in_transaction_session_timeout = '5min'`,
  )
})
afterAll(async () => await tables[Symbol.asyncDispose]())

async function asSuperuser(statement: string): Promise<void> {
  const options = encodeURIComponent('-c default_transaction_read_only=off')
  await using connection = await openClient(`${tables.database.url('superuser')}?options=${options}`)
  await connection.client.query(statement)
}

/**
 * An address that forwards its first connections to PostgreSQL after `gate`, and closes all others or leaves them
 * without a response.
 */
async function openAddress({ answered = 0, isSilent = false, gate = Promise.resolve() }) {
  const target = new URL(tables.database.url('findings'))
  const open = new Set<Socket>()
  let count = 0
  const track = (socket: Socket): void => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => open.delete(socket))
  }
  const server = createServer((client) => {
    count += 1
    track(client)
    if (count > answered) {
      if (isSilent) client.resume()
      else client.destroy()
      return
    }
    void gate.then(() => {
      const upstream = connectTo(Number(target.port), target.hostname)
      track(upstream)
      client.on('close', () => upstream.destroy())
      upstream.on('close', () => client.destroy())
      client.pipe(upstream).pipe(client)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    host: `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    taken: () => count,
    /** The number of sockets on both sides. */
    open: () => open.size,
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

const nobody = '127.0.0.1:1'

function urlOf(hosts: readonly string[], role: 'findings' | 'migrator' = 'findings', query = ''): string {
  const url = tables.database.url(role)
  return `${url.replace(new URL(url).host, hosts.join(','))}${query}`
}

function realHost(): string {
  return new URL(tables.database.url('findings')).host
}

test('if no server is reachable, the error has the reason for each', async () => {
  const db = tables.open({ connectionString: urlOf([nobody, '127.0.0.1:2']) })
  await expect(db.ping()).rejects.toMatchObject({
    name: 'DatabaseUnavailableError',
    cause: { message: 'connect ECONNREFUSED 127.0.0.1:1; connect ECONNREFUSED 127.0.0.1:2' },
  })
})

test('a server that rejects connections is skipped', async () => {
  const db = tables.open({ connectionString: urlOf([nobody, realHost()], 'findings', '?target_session_attrs=primary') })
  const id = randomUUID()
  const tenant = tables.mint(id)
  await addParent(db, tenant, id, 'a row')
  expect(await names(db, tenant)).toEqual(['a row'])
  await using connection = await connect(urlOf([nobody, realHost()], 'migrator'))
  expect((await connection.client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})

/** The address of a server that rejects every login with this SQLSTATE. */
async function openRefusing(state: string) {
  const server = createServer((client) => {
    client.on('error', () => undefined)
    client.once('data', () => {
      const fields = Buffer.from(`SFATAL\0C${state}\0Mrefused with ${state}\0\0`)
      const head = Buffer.alloc(5)
      head.write('E')
      head.writeInt32BE(fields.length + 4, 1)
      client.end(Buffer.concat([head, fields]))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    host: `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    [Symbol.asyncDispose]: async () => {
      server.close()
      await once(server, 'close')
    },
  }
}

test.each(['3D000', '28P01', '28000', '57P03'])(
  'a server that is lagging or starting (%s) is skipped',
  async (state) => {
    await using behind = await openRefusing(state)
    await expect(tables.open({ connectionString: urlOf([behind.host, realHost()]) }).ping()).resolves.toBeUndefined()
    const nowhere = tables.open({ connectionString: urlOf([nobody, behind.host]) })
    await expect(nowhere.ping()).rejects.toMatchObject({
      cause: { message: expect.stringContaining(`refused with ${state}`) },
    })
  },
)

test('an unresponsive server leaves time for the next one and is not tried again', async () => {
  await using silent = await openAddress({ isSilent: true })
  const db = tables.open({ connectionString: urlOf([silent.host, realHost()]), maxConnections: 2 })
  await expect(db.ping()).resolves.toBeUndefined()
  await Promise.all([db.ping(), db.ping()])
  expect(silent.taken()).toBe(1)
})

test('a primary that is read-only by default is rejected for target_session_attrs=read-write and accepted for primary', async () => {
  await asSuperuser(`alter database ${tables.database.name} set default_transaction_read_only = on`)
  try {
    const hosts = [realHost(), realHost()]
    await expect(connect(urlOf(hosts, 'migrator', '?target_session_attrs=read-write'))).rejects.toThrow('is read-only')
    await using connection = await connect(urlOf(hosts, 'migrator', '?target_session_attrs=primary'))
    expect((await connection.client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  } finally {
    await asSuperuser(`alter database ${tables.database.name} reset default_transaction_read_only`)
  }
})

test('after a switch to another server, unused connections to the previous one close', async () => {
  const gate = Promise.withResolvers<void>()
  await using former = await openAddress({ answered: 2 })
  await using next = await openAddress({ answered: Infinity, gate: gate.promise })
  const connectionString = urlOf([former.host, next.host])
  const db = tables.open({ connectionString, maxConnections: 3, connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 })
  const id = randomUUID()
  const tenant = tables.mint(id)
  const transactions = [1, 2].map(() => {
    const [begun, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const ended = db.write(tenant, async (tx) => {
      await tx.execute(sql('select 1'))
      begun.resolve()
      await end.promise
    })
    return { begun: begun.promise, end: end.resolve, ended }
  })
  const [first, second] = transactions
  await Promise.all(transactions.map(async ({ begun }) => await begun))
  expect([former.taken(), former.open()]).toEqual([2, 4])

  const third = db.ping()
  await expect.poll(() => next.taken()).toBe(1)
  first?.end()
  await first?.ended
  expect(db.stats()).toEqual({ total: 3, idle: 1, waiting: 0 })
  gate.resolve()
  await third
  // One was idle, and one is still in use.
  await expect.poll(() => former.open()).toBe(2)
  second?.end()
  await second?.ended
  await expect.poll(() => [former.open(), db.stats().total]).toEqual([0, 1])
  await addParent(db, tenant, id, 'a row')
  expect(await names(db, tenant)).toEqual(['a row'])
})
