import { randomUUID } from 'node:crypto'
import { changeSchema } from '@postern/contracts'
import { type Tx } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findWindowEnd, listChanges, windowLength } from '../src/change/store.ts'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let findings: FindingsUnderTest
beforeAll(async () => (findings = await startFindings()))
afterAll(async () => await findings.close())

const feed = '/api/v1/changes'
const reader = (scopes: readonly string[] = ['read:findings', 'read:universe']) => newTenant(scopes)

/** One page, and the link to the next. */
async function pull(principal: Principal, target = feed) {
  const answer = await findings.call(principal, 'GET', target)
  expect(answer.status, answer.text).toBe(200)
  const link = /^<([^>]+)>; rel="next"$/.exec(answer.headers['link'] ?? '')?.[1]
  const since = String(answer.headers['postern-next-since'])
  const limit = new URL(target, findings.url).searchParams.get('limit')
  const next = `${feed}?${limit === null ? '' : `limit=${limit}&`}since=${since}`
  return { changes: z.array(changeSchema).parse(answer.json), next, link, since }
}

/** Everything from a link on, page by page, until a page is empty. */
async function pullAll(principal: Principal, target = feed) {
  const all: z.infer<typeof changeSchema>[] = []
  for (let page = await pull(principal, target); ; page = await pull(principal, page.next)) {
    all.push(...page.changes)
    if (page.changes.length === 0) return { changes: all, next: page.next }
  }
}

/** Rows of the universe as its service would write them: the feed does not know who does. */
async function insertEntity(tx: Tx, { tenantId }: Principal, number: number): Promise<string> {
  const [row] = await tx.query<{ id: string }>({
    text: `insert into universe.entity
             (tenant_id, number, name, type, status, created_by_type, created_by_id, created_by_label)
           values ($1, $2, 'Treasury', 'department', 'active', 'connector', 'c', 'A connector') returning id`,
    values: [tenantId, number],
  })
  return row?.id ?? ''
}

const write = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => await findings.asSuperuser.system(work)

/** Documents a finding in the tenant of a reader. */
async function document(principal: Principal, title = 'A finding'): Promise<void> {
  const writer = { ...principal, scopes: ['write:findings'] }
  const answer = await findings.call(writer, 'POST', path, { body: findingBody({ title }) })
  expect(answer.status, answer.text).toBe(201)
}

describe('following changes is rejected', () => {
  test('for a key without a read scope', async () => {
    const answer = await findings.call(reader(['write:findings', 'admin:sync']), 'GET', feed)
    expect([answer.status, answer.json]).toMatchObject([
      403,
      { code: 'insufficient_scope', allowed: ['read:findings', 'read:universe'] },
    ])
  })

  test.each(['garbage', 'W10', Buffer.from('["a","1",null]').toString('base64url')])(
    'with the invalid cursor %j',
    async (cursor) => {
      const answer = await findings.call(reader(), 'GET', `${feed}?since=${cursor}`)
      expect([answer.status, answer.json]).toMatchObject([400, { errors: [{ parameter: 'since' }] }])
    },
  )

  test('with a cursor of another tenant, in the same way as with an unknown one', async () => {
    const [one, two] = [reader(), reader()]
    await document(one)
    await document(two)
    const { next } = await pull(one)
    const answer = await findings.call(two, 'GET', next)
    const invented = await findings.call(two, 'GET', `${feed}?since=garbage`)
    const shown = ({ status, text }: typeof answer) => [status, text.replace(/"instance":"[^"]*"/, '')]
    expect(shown(answer)).toEqual(shown(invented))
    expect(await findings.call(one, 'GET', next)).toMatchObject({ status: 200 })
  })

  test('with 410 after a restore of the database, however much has changed since', async () => {
    const principal = reader()
    await document(principal)
    const kept = await pull(principal)
    await document(principal)
    const lost = await pull(principal)
    // Like a restore: removes the last transaction.
    await write(async (tx) => {
      const ofLast = 'position = (select last_position from tenancy.change_head where tenant_id = $1)'
      const inTenant = `with gone as (delete from tenancy.change_batch where tenant_id = $1 and ${ofLast} returning id)
        delete from tenancy.change where tenant_id = $1 and batch_id in (select id from gone)`
      await tx.execute({ text: inTenant, values: [principal.tenantId] })
      const back = 'update tenancy.change_head set last_position = last_position - 1 where tenant_id = $1'
      await tx.execute({ text: back, values: [principal.tenantId] })
    })
    const codeOf = async (next: string) => {
      const { status, json } = await findings.call(principal, 'GET', next)
      return [status, z.object({ code: z.string() }).safeParse(json).data?.code]
    }
    expect(await codeOf(lost.next)).toEqual([410, 'cursor_expired'])
    await document(principal, 'In its place')
    expect(await codeOf(lost.next)).toEqual([410, 'cursor_expired'])
    await document(principal, 'And one more')
    expect(await codeOf(lost.next)).toEqual([410, 'cursor_expired'])
    expect((await pull(principal, kept.next)).changes).toHaveLength(4)
  })

  test('with 410 after the changes behind the cursor were pruned', async () => {
    const principal = reader()
    const { next: beginning } = await pull(principal)
    await document(principal)
    await document(principal)
    const { next: middle } = await pull(principal)
    await write(async (tx) => {
      const text = `update tenancy.change_batch set committed_at = committed_at - interval '31 days' where tenant_id = $1`
      await tx.execute({ text, values: [principal.tenantId] })
    })
    await document(principal, 'Much later')
    const expired = await findings.call(principal, 'GET', beginning)
    expect([expired.status, expired.json]).toMatchObject([410, { code: 'cursor_expired' }])
    // A reader at the end misses nothing, and a new reader gets what is stored.
    // A finding also has a log entry.
    const kinds = async (from?: string) => (await pull(principal, from)).changes.map(({ kind }) => kind).toSorted()
    expect(await kinds(middle)).toEqual(['finding', 'log_entry'])
    expect(await kinds()).toEqual(['finding', 'log_entry'])
  })
})

describe('the change feed', () => {
  test('returns creations, updates and deletions once and in order', async () => {
    const principal = reader()
    const id = await write(async (tx) => await insertEntity(tx, principal, 1))
    const update = (set: string) => ({ text: `update universe.entity set ${set} where id = $1`, values: [id] })
    await write(async (tx) => await tx.execute(update('name = $$Treasuries$$, version = version + 1')))
    await write(async (tx) => {
      // Its place in the tree goes with it.
      await tx.execute({ text: 'delete from universe.entity_path where entity_id = $1', values: [id] })
      await tx.execute({ text: 'delete from universe.entity where id = $1', values: [id] })
    })
    const { changes } = await pullAll(principal)
    expect(changes.map(({ kind, id: of, change, version }) => ({ kind, of, change, version }))).toEqual([
      { kind: 'entity', of: id, change: 'created', version: 1 },
      { kind: 'entity', of: id, change: 'updated', version: 2 },
      { kind: 'entity', of: id, change: 'deleted', version: 2 },
    ])
  })

  test('skips any number of changes that the reader cannot read, with bounded statements', async () => {
    const principal = reader()
    const blind = { ...principal, scopes: ['read:universe'] }
    await write(async (tx) => await insertEntity(tx, principal, 1))
    const before = await pull(blind)
    expect(before.changes).toHaveLength(1)
    await document(principal)
    // Read once, so that the transaction has its position.
    await pull(principal)
    // Like a long log, in the last transaction.
    await write(async (tx) => {
      const text = `
        insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, version)
        select b.tenant_id, b.id, 1000 + n, 'log_entry', uuidv7(), 'created', null
        from tenancy.change_batch b
        join tenancy.change_head h on h.tenant_id = b.tenant_id and h.last_position = b.position
        cross join generate_series(1, $2) as n
        where b.tenant_id = $1`
      await tx.execute({ text, values: [principal.tenantId, windowLength + 100] })
    })
    const id = await write(async (tx) => await insertEntity(tx, principal, 2))
    const { changes, next } = await pull(blind, before.next)
    expect(changes.map(({ id: of }) => of)).toEqual([id])
    const end = await pull(blind, next)
    expect(end.changes).toEqual([])
    expect((await pull(blind, end.next)).next).toBe(end.next)
    // One statement reads only its stretch and returns where it ends.
    const from = { position: '0', ordinal: null }
    const kinds = ['entity'] as const
    const [near, stop] = await findings.asService.read(findings.assertionOf(principal.tenantId), async (tx) =>
      Promise.all([listChanges(tx, { after: from, kinds, limit: 10, window: 100 }), findWindowEnd(tx, from, 100)]),
    )
    expect(near).toHaveLength(1)
    expect(stop).toMatchObject({ position: '2' })
  })

  test('does not contain changes that were rolled back', async () => {
    const principal = reader()
    const failing = write(async (tx) => {
      await insertEntity(tx, principal, 1)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect((await pull(principal)).changes).toEqual([])
  })

  test('contains only changes that the scopes of the reader allow', async () => {
    const principal = reader()
    await document(principal)
    await write(async (tx) => await insertEntity(tx, principal, 1))
    const kindsFor = async (...scopes: string[]) => {
      const { changes } = await pullAll({ ...principal, scopes })
      return [...new Set(changes.map(({ kind }) => kind))].toSorted()
    }
    expect(await kindsFor('read:universe')).toEqual(['entity'])
    expect(await kindsFor('read:findings')).not.toContain('entity')
    expect(await kindsFor('read:findings')).toContain('finding')
    expect(await kindsFor('read:findings', 'read:universe')).toEqual(expect.arrayContaining(['entity', 'finding']))
    expect((await pull(reader())).changes).toEqual([])
  })

  test('loses no change if a transaction that began earlier commits later', async () => {
    const principal = reader()
    const [begun, mayCommit] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()]
    const slow = write(async (tx) => {
      begun.resolve(await insertEntity(tx, principal, 1))
      await mayCommit.promise
    })
    const early = await begun.promise
    const late = await write(async (tx) => await insertEntity(tx, principal, 2))
    const first = await pullAll(principal)
    expect(first.changes.map(({ id }) => id)).toEqual([late])
    mayCommit.resolve()
    await slow
    const second = await pullAll(principal, first.next)
    expect(second.changes.map(({ id }) => id)).toEqual([early])
    expect((await pullAll(principal)).changes.map(({ id }) => id)).toEqual([late, early])
  })

  test('delivers all concurrent writes to a follower exactly once', async () => {
    const principal = reader()
    const writing = Promise.all(Array.from({ length: 25 }, async () => await document(principal)))
    const state = { isWriting: true }
    void writing.finally(() => (state.isWriting = false))
    const seen: string[] = []
    let next = feed
    do {
      const page = await pull(principal, next)
      seen.push(...page.changes.filter(({ kind }) => kind === 'finding').map(({ id }) => id))
      next = page.next
    } while (state.isWriting)
    await writing
    const rest = await pullAll(principal, next)
    seen.push(...rest.changes.filter(({ kind }) => kind === 'finding').map(({ id }) => id))
    expect(new Set(seen).size).toBe(25)
    expect(seen).toHaveLength(25)
  })

  test('has pages even within one large transaction', async () => {
    const principal = reader()
    const made = await write(async (tx) => {
      const ids: string[] = []
      for (let number = 1; number <= 7; number += 1) ids.push(await insertEntity(tx, principal, number))
      return ids
    })
    const { changes } = await pullAll(principal, `${feed}?limit=3`)
    expect(changes.map(({ id }) => id)).toEqual(made)
  })

  test('ends for a reader that follows links until there is none', async () => {
    const principal = reader()
    for (let number = 1; number <= 3; number += 1) await document(principal)
    const walk = async (start: string) => {
      const ids: string[] = []
      for (let target: string | undefined = start; target !== undefined;) {
        const page: Awaited<ReturnType<typeof pull>> = await pull(principal, target)
        ids.push(...page.changes.map(({ id }) => id))
        target = page.link
      }
      return ids
    }
    const all = (await pullAll(principal)).changes.map(({ id }) => id)
    expect(all).toHaveLength(6)
    for (const limit of [1, 2, 3, 6, 7]) expect(await walk(`${feed}?limit=${limit}`)).toEqual(all)
    // The link to keep from the start ends as well.
    const start = await pull(principal, `${feed}?since=now`)
    await document(principal)
    expect(await walk(start.link ?? '')).toHaveLength(2)
  })

  test('always has a link with follow=true', async () => {
    const principal = reader()
    await document(principal)
    const first = await pull(principal, `${feed}?follow=true`)
    expect(first.changes).toHaveLength(2)
    const second = await pull(principal, first.link)
    expect([second.changes, second.link]).toEqual([[], first.link])
    const id = await write(async (tx) => await insertEntity(tx, principal, 1))
    expect((await pull(principal, second.link)).changes).toMatchObject([{ id }])
  })

  test('continues after the position of any change', async () => {
    const principal = reader()
    await document(principal)
    await document(principal)
    const { changes, since } = await pull(principal)
    expect(changes).toHaveLength(4)
    for (const [at, { position }] of changes.entries()) {
      expect((await pull(principal, `${feed}?since=${position}`)).changes).toEqual(changes.slice(at + 1))
    }
    expect((await pull(principal, `${feed}?since=${since}`)).changes).toEqual([])
    const kept = new Set(changes.map(({ position }) => position))
    expect(kept.size).toBe(4)
    const answer = await findings.call(reader(), 'GET', `${feed}?since=${[...kept][0] ?? ''}`)
    expect([answer.status, answer.json]).toMatchObject([400, { errors: [{ parameter: 'since' }] }])
  })

  test.each(['format=ndjson', 'format=csv'])(
    'contains everything up to its end as %s, and where to continue',
    async (form) => {
      const principal = reader()
      const empty = await findings.call(principal, 'GET', `${feed}?${form}`)
      expect([empty.status, empty.text.split('\n').filter(Boolean).length]).toEqual([
        200,
        form === 'format=csv' ? 1 : 0,
      ])
      for (let number = 1; number <= 3; number += 1) await document(principal)
      const { changes } = await pull(principal)
      const whole = await findings.call(principal, 'GET', `${feed}?${form}`)
      const positions = changes.map(({ position }) => position)
      const places = positions.map((position) => whole.text.indexOf(position))
      expect(places.toSorted((a, b) => a - b)).toEqual(places)
      expect(places[0]).toBeGreaterThan(0)
      const since = String(whole.headers['postern-next-since'])
      expect((await pull(principal, `${feed}?since=${since}`)).changes).toEqual([])
      await document(principal)
      const rest = await findings.call(principal, 'GET', `${feed}?${form}&since=${since}`)
      expect(positions.filter((position) => rest.text.includes(position))).toEqual([])
      expect((await pull(principal, `${feed}?since=${since}`)).changes).toHaveLength(2)
    },
  )

  test('says in the body where to continue, with envelope=true', async () => {
    const principal = reader()
    for (let number = 1; number <= 2; number += 1) await document(principal)
    const pageSchema = z.strictObject({
      items: z.array(changeSchema),
      next: z.string().nullable(),
      total: z.null(),
      next_since: z.string(),
    })
    const first = await findings.call(principal, 'GET', `${feed}?envelope=true&limit=3`)
    const page = pageSchema.parse(first.json)
    expect([page.items.length, page.next_since]).toEqual([3, page.items[2]?.position])
    const second = await findings.call(principal, 'GET', `${feed}${page.next}`)
    expect(pageSchema.parse(second.json)).toMatchObject({ items: [{}], next: null })
  })

  test('starts at its end with since=now', async () => {
    const principal = reader()
    await document(principal)
    const { changes, next } = await pull(principal, `${feed}?since=now`)
    expect(changes).toEqual([])
    const id = await write(async (tx) => await insertEntity(tx, principal, 1))
    expect((await pull(principal, next)).changes).toMatchObject([{ kind: 'entity', id, change: 'created' }])
  })

  test('cannot be written by any service', async () => {
    const principal = reader()
    await document(principal)
    for (const text of [
      `delete from tenancy.change`,
      `update tenancy.change_batch set position = 0`,
      `update tenancy.change_head set last_position = 0`,
      `insert into tenancy.change_head (tenant_id, last_position) values ('${randomUUID()}', 1)`,
    ]) {
      const attempt = findings.asService.write(findings.assertionOf(principal.tenantId), async (tx) =>
        tx.execute({ text, values: [] }),
      )
      await expect(attempt).rejects.toMatchObject({ code: '42501' })
    }
  })
})
