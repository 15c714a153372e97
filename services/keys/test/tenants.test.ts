import { internalPaths, tenantEventSchema, tenantLookupAnswerSchema, tenantSchema } from '@postern/contracts/internal'
import { operator as localOperator } from '@postern/local-stack/testing'
import { checkCatalog } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type KeysUnderTest,
  LeaseHolder,
  failureOf,
  lookUp,
  newKey,
  newTenant,
  readEnforcement,
  sql,
  startKeys,
  whileLeased,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const { tenants: path } = internalPaths

async function lookUpTenant(tenantId: string) {
  return tenantLookupAnswerSchema.parse((await service.ask(internalPaths.lookupTenant, { tenantId })).json)
}

describe('tenants are closed', () => {
  test('to administrators, gateways and unsigned callers', async () => {
    const admin = await newTenant(service)
    const body = { slug: 'mine', name: 'Mine' }
    for (const [method, target] of [
      ['POST', path],
      ['GET', path],
      ['POST', `${path}/${admin.tenantId}/suspend`],
      ['POST', `${path}/${admin.tenantId}/resume`],
      ['POST', `${path}/${admin.tenantId}`],
      ['GET', `${path}/${admin.tenantId}/events`],
    ] as const) {
      const given = target === path && method === 'POST' ? { body } : {}
      expect((await service.call(admin, method, target, given)).status).toBe(401)
      expect((await service.call({ ...admin, kind: 'operator', roles: [] }, method, target, given)).status).toBe(401)
      expect((await service.stranger.call(admin, method, target, given)).status).toBe(401)
    }
    expect((await lookUpTenant(admin.tenantId)).record).toMatchObject({ tenantStatus: 'active' })
  })

  test('by PostgreSQL without the operator’s assertion', async () => {
    const { tenantId } = await newTenant(service)
    const statements = [
      sql(`select keys.create_tenant('x-z', 'X', 'x')`),
      sql('select keys.list_tenants(null, 10)'),
      sql(`select keys.update_tenant($1, null, null, 1, null, 'x')`, tenantId),
      sql('select keys.list_tenant_events($1, null, 10)', tenantId),
    ]
    const operator = service.assertionOf('00000000-0000-0000-0000-000000000000')
    for (const statement of statements) {
      expect(
        await failureOf(
          service.asService.write(service.assertionOf(tenantId), async (tx) => await tx.query(statement)),
        ),
      ).toMatchObject({ kind: 'assertion' })
      expect(await failureOf(service.asService.system(async (tx) => await tx.query(statement)))).toMatchObject({
        kind: 'assertion',
      })
      expect(
        await failureOf(service.asService.write(operator, async (tx) => await tx.query(statement))),
      ).toBeUndefined()
    }
  })

  test.each([
    ['a slug in capitals', { slug: 'Mine', name: 'x' }],
    ['a slug of one character', { slug: 'm', name: 'x' }],
    ['no name', { slug: 'mine', name: ' ' }],
    ['a field that tenants do not have', { slug: 'mine', name: 'x', status: 'active' }],
  ])('to %s', async (_what, body) => {
    expect((await service.operate('POST', path, { body })).status).toBe(422)
  })

  test('with 409 for a taken slug, and the first tenant is unchanged', async () => {
    const { slug, tenantId } = await newTenant(service)
    const answer = await service.operate('POST', path, { body: { slug, name: 'Other' } })
    expect(answer.json).toMatchObject({ status: 409, code: 'conflict' })
    expect((await lookUpTenant(tenantId)).record).toMatchObject({ tenantName: 'A tenant' })
  })

  test('for an unknown id or slug', async () => {
    for (const id of [crypto.randomUUID(), 'nobody', 'NO!']) {
      expect((await service.operate('POST', `${path}/${id}/suspend`)).status).toBe(404)
      expect((await service.operate('POST', `${path}/${id}/resume`)).status).toBe(404)
      expect((await service.operate('POST', `${path}/${id}`, { body: { key_limit: 1 } })).status).toBe(404)
    }
  })
})

describe('a tenant', () => {
  test('is created, listed and looked up', async () => {
    const slug = `t${crypto.randomUUID()}`
    const answer = await service.operate('POST', path, { body: { slug, name: ' Harbourline ' } })
    expect(answer.status).toBe(201)
    const tenant = tenantSchema.parse(answer.json)
    expect(tenant).toMatchObject({ slug, name: 'Harbourline', status: 'active', version: 1 })
    const told = service.log.filter((line) => line.includes(tenant.id)).map((line) => JSON.parse(line))
    expect(told).toContainEqual(expect.objectContaining({ event: 'tenant_created', operator: localOperator.label }))
    const listed = z.array(tenantSchema).parse((await service.operate('GET', path)).json)
    expect(listed).toContainEqual(tenant)
    const byId = await lookUpTenant(tenant.id)
    expect(byId.record).toMatchObject({ tenantId: tenant.id, tenantName: 'Harbourline' })
    for (const [asked, found] of [
      [slug, { ...byId.record, readAt: expect.any(Number) }],
      [`${slug}x`, null],
      ['harbourline-of-nobody', null],
    ] as const) {
      const bySlug = await service.ask(internalPaths.lookupTenant, { slug: asked })
      expect(tenantLookupAnswerSchema.parse(bySlug.json).record).toEqual(found)
    }
    for (const body of [{}, { slug: 'No!' }, { slug, tenantId: tenant.id }]) {
      expect((await service.ask(internalPaths.lookupTenant, body)).status).toBe(422)
    }
    expect(listed.map((each) => each.slug)).toEqual(listed.map((each) => each.slug).toSorted())
    const { record, now } = await lookUpTenant(tenant.id)
    expect(record).toMatchObject({ tenantName: 'Harbourline', tenantStatus: 'active', tenantVersion: 1 })
    expect(now).toBe(record?.readAt)
  })

  test('has its name in composed form (NFC)', async () => {
    const body = { slug: `t${crypto.randomUUID()}`, name: 'Mu\u0308nchen' }
    const { id, name } = tenantSchema.parse((await service.operate('POST', path, { body })).json)
    expect(name).toBe('M\u00fcnchen')
    const changed = await service.operate('POST', `${path}/${id}`, { body: { name: 'Ko\u0308ln' } })
    expect(changed.json).toMatchObject({ name: 'K\u00f6ln' })
  })

  test('that does not exist is looked up as null', async () => {
    expect((await lookUpTenant(crypto.randomUUID())).record).toBeNull()
  })

  test('is suspended by id or slug when every gateway has confirmed, and resumed', async () => {
    await whileLeased(async () => {
      const admin = await newTenant(service)
      const key = await newKey(service, admin)
      const gateway = await new LeaseHolder(service.ask).take()
      let isAnswered = false
      const answer = service.operate('POST', `${path}/${admin.slug}/suspend`).finally(() => {
        isAnswered = true
      })
      try {
        const told = async () => (await gateway.renew()).revocations
        await expect
          .poll(told, { interval: 2 })
          .toMatchObject([{ kind: 'tenant', tenantId: admin.tenantId, version: 2 }])
        expect(isAnswered).toBe(false)
        await gateway.renew()
        const suspended = await answer
        expect(suspended.json).toMatchObject({ id: admin.tenantId, status: 'suspended', version: 2 })
        expect(readEnforcement(suspended)).toMatchObject({ gateways: 1, confirmed: 1 })
      } finally {
        await gateway.release()
        await answer
      }
      expect((await lookUp(service, key.hash)).record).toMatchObject({
        tenantStatus: 'suspended',
        tenantVersion: 2,
        revoked: false,
      })

      // Again: the same result without a further event.
      expect((await service.operate('POST', `${path}/${admin.tenantId}/suspend`)).json).toMatchObject({ version: 2 })
      expect((await service.operate('POST', `${path}/${admin.tenantId}/resume`)).json).toMatchObject({
        status: 'active',
        version: 3,
      })
      expect((await lookUp(service, key.hash)).record).toMatchObject({ tenantStatus: 'active', tenantVersion: 3 })
    })
  })
})

describe('the operator changes a tenant', () => {
  test('and every gateway uses its new name and limits when the response arrives', async () => {
    await whileLeased(async () => {
      const admin = await newTenant(service)
      const key = await newKey(service, admin)
      const gateway = await new LeaseHolder(service.ask).take()
      let isAnswered = false
      const body = { name: 'Renamed', key_limit: 90, tenant_limit: 900 }
      const answer = service.operate('POST', `${path}/${admin.slug}`, { body }).finally(() => {
        isAnswered = true
      })
      try {
        const told = async () => (await gateway.renew()).revocations
        await expect
          .poll(told, { interval: 2 })
          .toMatchObject([{ kind: 'tenant', tenantId: admin.tenantId, version: 2 }])
        expect(isAnswered).toBe(false)
        await gateway.renew()
        expect((await answer).json).toMatchObject({ id: admin.tenantId, status: 'active', ...body, version: 2 })
        expect(readEnforcement(await answer)).toMatchObject({ gateways: 1, confirmed: 1 })
      } finally {
        await gateway.release()
        await answer
      }
      const inForce = { tenantName: 'Renamed', tenantLimit: 900, tenantVersion: 2 }
      expect((await lookUp(service, key.hash)).record).toMatchObject({ ...inForce, keyLimit: 90 })
      expect((await lookUpTenant(admin.tenantId)).record).toMatchObject(inForce)
    })
  })

  test('in one field without touching others, and equal values write nothing', async () => {
    const { tenantId } = await newTenant(service)
    const change = async (body: object) => (await service.operate('POST', `${path}/${tenantId}`, { body })).json
    expect(await change({ tenant_limit: 7 })).toMatchObject({
      name: 'A tenant',
      key_limit: 6000,
      tenant_limit: 7,
      version: 2,
    })
    expect(await change({ tenant_limit: 7 })).toMatchObject({ version: 2 })
    expect(await eventsOf(tenantId)).toMatchObject([{ type: 'changed' }, { type: 'created' }])
  })

  test.each([
    ['an empty body', {}],
    ['a limit of zero', { key_limit: 0 }],
    ['a fractional limit', { tenant_limit: 1.5 }],
    ['a limit above the maximum', { key_limit: 1_000_000_001 }],
    ['a blank name', { name: ' ' }],
    ['a new slug', { slug: 'other' }],
    ['a new status', { status: 'suspended' }],
  ])('but not with %s', async (_what, body) => {
    const { tenantId } = await newTenant(service)
    expect((await service.operate('POST', `${path}/${tenantId}`, { body })).status).toBe(422)
    expect((await lookUpTenant(tenantId)).record).toMatchObject({ tenantVersion: 1 })
  })
})

async function eventsOf(idOrSlug: string, query = '') {
  return z.array(tenantEventSchema).parse((await service.operate('GET', `${path}/${idOrSlug}/events${query}`)).json)
}

describe('the trail of a tenant', () => {
  test('shows authors, changes, names and limits, newest first', async () => {
    const slug = `t${crypto.randomUUID()}`
    await service.operate('POST', path, { body: { slug, name: 'Before' } })
    await service.operate('POST', `${path}/${slug}/suspend`)
    await service.operate('POST', `${path}/${slug}`, { body: { name: 'After', key_limit: 5 } })
    await service.operate('POST', `${path}/${slug}/suspend`)
    await service.operate('POST', `${path}/${slug}/resume`)
    const by = { operator: localOperator.label, tenant_limit: 60_000 }
    expect(await eventsOf(slug)).toMatchObject([
      { type: 'resumed', name: 'After', key_limit: 5, ...by },
      { type: 'changed', name: 'After', key_limit: 5, ...by },
      { type: 'suspended', name: 'Before', key_limit: 6000, ...by },
      { type: 'created', name: 'Before', key_limit: 6000, ...by },
    ])
  })

  test('comes in pages', async () => {
    const { slug } = await newTenant(service)
    for (const action of ['suspend', 'resume']) await service.operate('POST', `${path}/${slug}/${action}`)
    const first = await service.operate('GET', `${path}/${slug}/events?limit=2`)
    const next = /<([^>]+)>; rel="next"/.exec(first.headers['link'] ?? '')?.[1]
    expect(
      z
        .array(tenantEventSchema)
        .parse(first.json)
        .map(({ type }) => type),
    ).toEqual(['resumed', 'suspended'])
    const last = await service.operate('GET', next ?? '')
    expect(
      z
        .array(tenantEventSchema)
        .parse(last.json)
        .map(({ type }) => type),
    ).toEqual(['created'])
    expect(last.headers['link']).toBeUndefined()
  })

  test('is append-only, even for the role that writes it', async () => {
    const { tenantId } = await newTenant(service)
    for (const statement of [
      `update keys.tenant_event set operator = 'nobody' where tenant_id = '${tenantId}'`,
      `delete from keys.tenant_event where tenant_id = '${tenantId}'`,
      'truncate keys.tenant_event',
    ]) {
      expect(await failureOf(service.asSuperuser.system(async (tx) => await tx.execute(sql(statement))))).toMatchObject(
        { sqlState: '55000' },
      )
    }
    expect(await eventsOf(tenantId)).toHaveLength(1)
  })
})

describe('the list of tenants', () => {
  test('is paged by slug without gaps', async () => {
    const made = [await newTenant(service), await newTenant(service), await newTenant(service)].map(({ slug }) => slug)
    const slugs: string[] = []
    let target: string | undefined = `${path}?limit=2`
    while (target !== undefined) {
      const page = await service.operate('GET', target)
      const tenants = z.array(tenantSchema).parse(page.json)
      expect(tenants.length).toBeLessThanOrEqual(2)
      slugs.push(...tenants.map(({ slug }) => slug))
      target = /<([^>]+)>; rel="next"/.exec(page.headers['link'] ?? '')?.[1]
    }
    expect(slugs.filter((slug) => made.includes(slug)).toSorted()).toEqual(made.toSorted())
    expect(new Set(slugs).size).toBe(slugs.length)
  })

  test.each(['?limit=0', '?limit=10001', '?after=NO!', '?q=x'])('is refused for %s', async (query) => {
    expect((await service.operate('GET', `${path}${query}`)).status).toBe(400)
  })
})

describe('PostgreSQL isolates tenants', () => {
  test.each(['tenant', 'api_key', 'api_key_event'])(
    'keys.%s: every statement fails without an assertion, and cannot reach another tenant’s rows with one',
    async (table) => {
      const [owner, other] = [await newTenant(service), await newTenant(service)]
      await newKey(service, owner)
      const statement = sql(`select tenant_id from keys.${table}`)
      expect(await failureOf(service.asService.system(async (tx) => await tx.query(statement)))).toMatchObject({
        kind: 'assertion',
      })
      const seenBy = async (tenantId: string) =>
        await service.asService.read(service.assertionOf(tenantId), async (tx) => await tx.query(statement))
      expect(await seenBy(owner.tenantId)).toEqual([{ tenant_id: owner.tenantId }])
      expect((await seenBy(other.tenantId)).filter(({ tenant_id }) => tenant_id !== other.tenantId)).toEqual([])
    },
  )

  test.each(['tenant_event', 'api_key_denial', 'revocation', 'revocation_seq', 'gateway_lease'])(
    'keys.%s is not accessible to the service’s role',
    async (table) => {
      const { tenantId } = await newTenant(service)
      const statement = sql(`select from keys.${table}`)
      expect(
        await failureOf(service.asService.read(service.assertionOf(tenantId), async (tx) => await tx.query(statement))),
      ).toMatchObject({ kind: 'rls' })
    },
  )

  test('a key or an event for another tenant is rejected', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, owner)
    const asOther = async (statement: ReturnType<typeof sql>) =>
      await failureOf(
        service.asService.write(service.assertionOf(other.tenantId), async (tx) => await tx.execute(statement)),
      )
    const event = (tenantId: string) =>
      sql(`insert into keys.api_key_event (tenant_id, key_id, type) values ($1, $2, 'revoked')`, tenantId, id)
    expect(await asOther(event(owner.tenantId))).toMatchObject({ kind: 'rls' })
    // Under its own tenant, the key looks exactly like a missing one.
    expect(await asOther(event(other.tenantId))).toMatchObject({
      kind: 'foreign-key',
      constraint: 'api_key_event_key_fk',
    })
    const changed = await service.asService.write(
      service.assertionOf(other.tenantId),
      async (tx) => await tx.execute(sql(`update keys.api_key set label = 'mine' where id = $1`, id)),
    )
    expect(changed).toBe(0)
    const control = await service.asService.write(
      service.assertionOf(owner.tenantId),
      async (tx) => await tx.execute(sql(`update keys.api_key set label = 'mine' where id = $1`, id)),
    )
    expect(control).toBe(1)
  })

  test('the catalogs show no bypass in this schema', async () => {
    const violations = await checkCatalog(service.databaseUrl, {
      allow: {
        // They contain no tenant data: the position of the log, and the gateways.
        tablesWithoutTenant: [
          'keys.expired_scan',
          'keys.github_report',
          'keys.revocation_seq',
          'keys.gateway_lease',
          'keys.route',
          'keys.usage_watch',
        ],
        // Looked up before the tenant is known, or by the platform; see README.md.
        definerFunctions: [
          'keys.log_change()',
          'keys.find_key_by_hash(bytea)',
          'keys.find_tenant(uuid)',
          'keys.find_tenant_id(text)',
          'keys.record_github_report(bytea)',
          'keys.revoke_leaked_keys(bytea[],jsonb[],text,text,text)',
          'keys.grant_lease(uuid,text,bigint,text,integer)',
          'keys.release_lease(uuid)',
          'keys.find_person(uuid,text,text)',
          'keys.read_leases()',
          'keys.read_grants()',
          'keys.forget_leases(uuid[],uuid[])',
          'keys.follow_log(bigint,text,integer)',
          'keys.last_key_change(bytea)',
          'keys.last_tenant_change(uuid)',
          'keys.record_uses(jsonb)',
          'keys.count_uses(jsonb)',
          'keys.record_denials(jsonb)',
          'keys.record_refusals(jsonb)',
          'keys.record_people(jsonb)',
          'keys.note_pending_denials(integer)',
          'keys.prune_log(bigint,numeric,integer)',
          'keys.prune_uses(integer,integer)',
          'keys.count_addresses(jsonb)',
          'keys.count_refusals(jsonb)',
          'keys.prune_refusals(integer,integer)',
          'keys.audit_key_events()',
          'keys.audit_key_expiry()',
          'keys.audit_policy_event()',
          'keys.audit_tenant_event()',
          'keys.set_audit_retention()',
          'keys.note_expired(integer)',
          'keys.note_expiring()',
          'keys.set_routes(jsonb)',
          // Of the tenant of the assertion, for mails of the sync service.
          'keys.find_key_to_notify(uuid)',
          'keys.watch_usage()',
          'keys.note_idle()',
          'keys.note_late_usage()',
          'keys.prune_sign_ins(integer)',
          'keys.record_sign_ins(jsonb)',
          'keys.revoke_idle_keys(integer)',
          'keys.start_overlaps(integer)',
          'keys.review_new_routes(jsonb)',
          'keys.review_refused(jsonb)',
          'keys.review_keys(integer)',
          'keys.assess_changed_keys()',
          'keys.assess_keys_of_member()',
          'keys.review_after_policy()',
          'keys.create_tenant(text,text,text)',
          'keys.list_tenants(text,integer)',
          'keys.update_tenant(text,text,text,integer,integer,text)',
          'keys.list_tenant_events(text,uuid,integer)',
        ],
        // A hash of 256 random bits, a slug from the operator, the log's own number.
        globalIndexes: [
          'keys.expired_scan_pk',
          'keys.github_report_pk',
          'keys.route_pk',
          'keys.usage_watch_pk',
          'keys.api_key_hash_unique',
          'keys.tenant_slug_unique',
          'keys.revocation_pk',
        ],
      },
    })
    expect(violations.filter(({ object }) => object.startsWith('keys.'))).toEqual([])
  })
})
