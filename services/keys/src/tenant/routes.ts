import { type Tenant, createTenantBodySchema, internalPaths, tenantSlugSchema } from '@postern/contracts/internal'
import { type App, internalRoute, problem } from '@postern/service-kit'
import { sqlError } from '@postern/tenant-db'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { insertTenant, listTenants, setTenantStatus } from './store.ts'

const operatorOnly = { signedBy: ['operator'], callers: ['operator'] } as const
const tenantParams = z.strictObject({ id: z.union([z.uuid().toLowerCase(), tenantSlugSchema]) })
const maxTenants = 10_000

/** Tenants: made, listed, suspended and resumed by the platform's operator, whom PostgreSQL checks as well. */
export function tenantRoutes(app: App, { db, enforcer }: Pick<Deps, 'db' | 'enforcer'>): void {
  internalRoute(
    app,
    { ...operatorOnly, method: 'POST', path: internalPaths.tenants, body: createTenantBodySchema },
    async ({ body, context, answer, log }): Promise<Tenant> => {
      try {
        const tenant = await db.write(context, async (tx) => await insertTenant(tx, body))
        log.info({ event: 'tenant_created', tenant_id: tenant.id, operator: context.label })
        answer.status(201)
        return tenant
      } catch (error) {
        if (sqlError(error).constraint !== 'tenant_slug_unique') throw error
        throw problem('conflict', { detail: `There is a tenant ${body.slug} already. Choose another slug.` })
      }
    },
  )

  internalRoute(
    app,
    { ...operatorOnly, method: 'GET', path: internalPaths.tenants },
    async ({ context }): Promise<Tenant[]> => await db.read(context, async (tx) => await listTenants(tx, maxTenants)),
  )

  internalRoute(
    app,
    { ...operatorOnly, method: 'POST', path: `${internalPaths.tenants}/:id/suspend`, params: tenantParams },
    async ({ params, context, log }) => {
      const tenant = await enforcer.confirmed(
        'tenant',
        async () => await db.write(context, async (tx) => await setTenantStatus(tx, params.id, 'suspended')),
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
      const tenant = await db.write(context, async (tx) => await setTenantStatus(tx, params.id, 'active'))
      if (tenant === undefined) throw problem('not_found')
      // Waited for as well: after the answer no gateway refuses the tenant for what it was.
      const enforcement = await enforcer.enforceTenant(tenant.id)
      log.info({ event: 'tenant_resumed', tenant_id: tenant.id, operator: context.label })
      return { ...tenant, enforcement }
    },
  )
}
