import {
  type Tenant,
  type TenantEvent,
  createTenantBodySchema,
  internalPaths,
  tenantSlugSchema,
  updateTenantBodySchema,
} from '@postern/contracts/internal'
import { type App, internalRoute, problem } from '@postern/service-kit'
import { sqlError } from '@postern/tenant-db'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { changeTenant, insertTenant, listTenantEvents, listTenants } from './store.ts'

const operatorOnly = { signedBy: ['operator'], callers: ['operator'] } as const
const tenantParams = z.strictObject({ id: z.union([z.uuid().toLowerCase(), tenantSlugSchema]) })

const maxTenants = 10_000
const maxEvents = 1000
const limitOf = (max: number) => z.coerce.number().int().min(1).max(max).default(max)
const tenantsQuery = z.strictObject({ limit: limitOf(maxTenants), after: tenantSlugSchema.optional() })
const eventsQuery = z.strictObject({ limit: limitOf(maxEvents), before: z.uuid().optional() })

/** PostgreSQL checks the operator's assertion as well. */
export function tenantRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  internalRoute(
    app,
    { ...operatorOnly, method: 'POST', path: internalPaths.tenants, body: createTenantBodySchema },
    async ({ body, context, answer, log }): Promise<Tenant> => {
      try {
        const tenant = await db.write(context, async (tx) => await insertTenant(tx, body, context.label))
        log.info({ event: 'tenant_created', tenant_id: tenant.id, operator: context.label })
        answer.status(201)
        return tenant
      } catch (error) {
        if (sqlError(error).constraint !== 'tenant_slug_unique') throw error
        throw problem('conflict', { detail: `The slug ${body.slug} is taken. Choose another one.` })
      }
    },
  )

  internalRoute(
    app,
    { ...operatorOnly, method: 'GET', path: internalPaths.tenants, query: tenantsQuery },
    async ({ query: { limit, after }, context, answer }): Promise<Tenant[]> => {
      const tenants = await db.read(context, async (tx) => await listTenants(tx, limit + 1, after))
      const page = tenants.slice(0, limit)
      const last = page.at(-1)
      if (tenants.length > limit && last !== undefined) {
        const next = new URLSearchParams({ limit: String(limit), after: last.slug })
        answer.header('link', `<${internalPaths.tenants}?${next.toString()}>; rel="next"`)
      }
      return page
    },
  )

  internalRoute(
    app,
    {
      ...operatorOnly,
      method: 'GET',
      path: `${internalPaths.tenants}/:id/events`,
      params: tenantParams,
      query: eventsQuery,
    },
    async ({ params, query: { limit, before }, context, answer }): Promise<TenantEvent[]> => {
      const events = await db.read(context, async (tx) => await listTenantEvents(tx, params.id, limit + 1, before))
      const page = events.slice(0, limit)
      const last = page.at(-1)
      if (events.length > limit && last !== undefined) {
        const next = new URLSearchParams({ limit: String(limit), before: last.id })
        answer.header('link', `<${internalPaths.tenants}/${params.id}/events?${next.toString()}>; rel="next"`)
      }
      return page
    },
  )

  internalRoute(
    app,
    {
      ...operatorOnly,
      method: 'POST',
      path: `${internalPaths.tenants}/:id`,
      params: tenantParams,
      body: updateTenantBodySchema,
    },
    async ({ params, body, context, log }) => {
      const change = { name: body.name, keyLimit: body.key_limit, tenantLimit: body.tenant_limit }
      const tenant = await db.write(context, async (tx) => await changeTenant(tx, params.id, change, context.label))
      if (tenant === undefined) throw problem('not_found')
      log.info({
        event: 'tenant_changed',
        tenant_id: tenant.id,
        operator: context.label,
        key_limit: tenant.key_limit,
        tenant_limit: tenant.tenant_limit,
      })
      const enforcement = await enforcer.enforceTenant(tenant.id)
      return { ...tenant, enforcement }
    },
  )

  internalRoute(
    app,
    { ...operatorOnly, method: 'POST', path: `${internalPaths.tenants}/:id/suspend`, params: tenantParams },
    async ({ params, context, log }) => {
      const change = { status: 'suspended' } as const
      const tenant = await enforcer.runNarrowing(
        'tenant',
        async () => await db.write(context, async (tx) => await changeTenant(tx, params.id, change, context.label)),
      )
      if (tenant === undefined) throw problem('not_found')
      log.info({ event: 'tenant_suspended', tenant_id: tenant.id, operator: context.label })
      const enforcement = await enforcer.enforceTenant(tenant.id)
      return { ...tenant, enforcement }
    },
  )

  internalRoute(
    app,
    { ...operatorOnly, method: 'POST', path: `${internalPaths.tenants}/:id/resume`, params: tenantParams },
    async ({ params, context, log }) => {
      const change = { status: 'active' } as const
      const tenant = await db.write(context, async (tx) => await changeTenant(tx, params.id, change, context.label))
      if (tenant === undefined) throw problem('not_found')
      // After the response, no gateway rejects the tenant.
      const enforcement = await enforcer.enforceTenant(tenant.id)
      log.info({ event: 'tenant_resumed', tenant_id: tenant.id, operator: context.label })
      return { ...tenant, enforcement }
    },
  )
}
