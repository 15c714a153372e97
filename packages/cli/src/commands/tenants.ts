import { enforcementSchema } from '@postern/contracts'
import {
  type Tenant,
  internalPaths,
  tenantEventSchema,
  tenantSchema,
  tenantSlugSchema,
} from '@postern/contracts/internal'
import { notFoundError, usageError } from '../cli-error.ts'
import type { OperatorService } from '../operator-service.ts'
import {
  type CommandContext,
  type OutputOptions,
  listAll,
  parseAnswer,
  printJson,
  withKeysService,
} from '../session.ts'
import { moment, formatSheet, formatTable } from '../table.ts'

const tenantListSchema = tenantSchema.array()
const changedTenantSchema = tenantSchema.extend({ enforcement: enforcementSchema.nullable() })

export async function createTenant(
  context: CommandContext,
  slug: string,
  options: OutputOptions & { readonly name: string },
): Promise<void> {
  assertSlug(slug)
  const tenant = await withKeysService(context.env, async (service) => {
    const { body } = await service.call({
      method: 'POST',
      target: internalPaths.tenants,
      body: { slug, name: options.name },
      noResponseAdvice: '`tenants list` shows whether the tenant was created',
    })
    return parseAnswer(tenantSchema, body)
  })
  if (options.json) printJson(context, tenant)
  else context.print(formatTenant(tenant))
}

export async function listTenants(context: CommandContext, options: OutputOptions): Promise<void> {
  const tenants = await withKeysService(context.env, allTenants)
  if (options.json) {
    printJson(context, tenants)
    return
  }
  const rows = tenants.map(({ slug, name, status, created_at, id }) => [slug, name, status, moment(created_at), id])
  context.print(formatTable(['SLUG', 'NAME', 'STATUS', 'CREATED', 'ID'], rows))
}

export async function showTenant(context: CommandContext, address: string, options: OutputOptions): Promise<void> {
  const tenant = await withKeysService(context.env, async (service) => await findTenant(service, address))
  if (options.json) printJson(context, tenant)
  else context.print(formatTenant(tenant))
}

export async function updateTenant(
  context: CommandContext,
  address: string,
  options: OutputOptions & { readonly name?: string; readonly keyLimit?: number; readonly tenantLimit?: number },
): Promise<void> {
  const { name, keyLimit, tenantLimit } = options
  const body = {
    ...(name === undefined ? {} : { name }),
    ...(keyLimit === undefined ? {} : { key_limit: keyLimit }),
    ...(tenantLimit === undefined ? {} : { tenant_limit: tenantLimit }),
  }
  if (Object.keys(body).length === 0) {
    throw usageError('pass --name, --key-limit or --tenant-limit')
  }
  const result = await withKeysService(context.env, async (service) => {
    const found = await findTenant(service, address)
    const { body: answer } = await service.call({
      method: 'POST',
      target: `${internalPaths.tenants}/${found.id}`,
      body,
      noResponseAdvice: 'The change may not be in force. Repeat the command; that is safe',
    })
    return parseAnswer(changedTenantSchema, answer)
  })
  if (options.json) printJson(context, result)
  else context.print(formatTenant(result))
}

export async function listTenantEvents(
  context: CommandContext,
  address: string,
  options: OutputOptions & { readonly limit?: number },
): Promise<void> {
  const events = await withKeysService(context.env, async (service) => {
    const { id } = await findTenant(service, address)
    const path = `${internalPaths.tenants}/${id}/events`
    const limit = options.limit ?? Number.POSITIVE_INFINITY
    return await listAll(service, {}, { path, query: new URLSearchParams(), schema: tenantEventSchema.array(), limit })
  })
  if (options.json) {
    printJson(context, events)
    return
  }
  const rows = events.map(({ at, type, operator, name, key_limit, tenant_limit }) => {
    return [moment(at), type, operator ?? '-', name, String(key_limit), String(tenant_limit)]
  })
  context.print(formatTable(['AT', 'EVENT', 'BY', 'NAME', 'KEY LIMIT', 'TENANT LIMIT'], rows))
}

export async function changeTenant(
  context: CommandContext,
  change: 'suspend' | 'resume',
  address: string,
  options: OutputOptions,
): Promise<void> {
  const { tenant, result } = await withKeysService(context.env, async (service) => {
    const found = await findTenant(service, address)
    const { body } = await service.call({
      method: 'POST',
      target: `${internalPaths.tenants}/${found.id}/${change}`,
      noResponseAdvice: 'The change may not be in force. Repeat the command; that is safe',
    })
    return { tenant: found, result: parseAnswer(changedTenantSchema, body) }
  })
  if (options.json) printJson(context, result)
  else context.print(change === 'suspend' ? `${tenant.slug} is suspended` : `${tenant.slug} is active again`)
}

export async function allTenants(service: OperatorService): Promise<Tenant[]> {
  const tenants: Tenant[] = []
  let target: string | undefined = internalPaths.tenants
  while (target !== undefined) {
    const { body, next } = await service.call({ method: 'GET', target })
    tenants.push(...parseAnswer(tenantListSchema, body))
    target = next
  }
  return tenants
}

export async function findTenant(service: OperatorService, address: string): Promise<Tenant> {
  const wanted = address.toLowerCase()
  const tenants = await allTenants(service)
  const tenant = tenants.find(({ slug, id }) => slug === wanted || id === wanted)
  if (tenant === undefined) throw notFoundError('the tenant does not exist. `tenants list` shows all tenants')
  return tenant
}

function assertSlug(slug: string): void {
  if (tenantSlugSchema.safeParse(slug).success) return
  throw usageError('a slug must be 2 to 63 of a-z, 0-9 and -, beginning with a letter')
}

function formatTenant({ id, slug, name, status, key_limit, tenant_limit, created_at }: Tenant): string {
  return formatSheet([
    ['slug', slug],
    ['name', name],
    ['status', status],
    ['key limit', `${key_limit} requests a minute`],
    ['tenant limit', `${tenant_limit} requests a minute`],
    ['created', moment(created_at)],
    ['id', id],
  ])
}
