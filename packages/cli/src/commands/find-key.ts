import { type ApiKey, apiKeySchema } from '@postern/contracts'
import { exitCodes } from '../exit-code.ts'
import { CliError, notFoundError, usageError } from '../cli-error.ts'
import { readKeyValues } from '../key-values.ts'
import type { OperatorService } from '../operator-service.ts'
import { type CommandContext, type OutputOptions, parseAnswer, printJson, withKeysService } from '../session.ts'
import { formatKey } from './format-key.ts'
import { allTenants, findTenant } from './tenants.ts'

export const keysPath = '/api/v1/api-keys'
const uuidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export interface KeyOptions extends OutputOptions {
  readonly tenant?: string
}

export async function findKeyByValue(context: CommandContext, source: string, options: KeyOptions): Promise<void> {
  const [value, ...others] = await readKeyValues(context, source, 'keys find')
  if (others.length > 0) throw usageError(`standard input contains ${others.length + 1} keys: pass one at a time`)
  const key = await withKeysService(context.env, async (service) => {
    const found = await searchTenants(service, options.tenant, async (tenantId) => {
      const { body } = await service.call({
        method: 'POST',
        target: `${keysPath}/find`,
        tenantId,
        body: { key: value },
      })
      return parseAnswer(apiKeySchema, body)
    })
    return found ?? notFoundIn(options.tenant, 'value')
  })
  if (options.json) printJson(context, key)
  else context.print(formatKey(key))
}

const tenantsAtOnce = 8

interface FoundKey {
  readonly key: ApiKey
  readonly tenantId: string
  readonly etag: string | undefined
}

/** A request acts for one tenant, so this may search each tenant. */
export async function findKey(
  service: OperatorService,
  id: string,
  tenantAddress: string | undefined,
): Promise<FoundKey> {
  // Never show the value: it may be a key.
  if (!uuidPattern.test(id)) throw usageError('the id of a key must be a UUID; `keys list` shows it')
  const found = await searchTenants(service, tenantAddress, async (tenantId) => {
    const { body, etag } = await service.call({ method: 'GET', target: `${keysPath}/${id.toLowerCase()}`, tenantId })
    return { key: parseAnswer(apiKeySchema, body), tenantId, etag }
  })
  return found ?? notFoundIn(tenantAddress, 'id')
}

/** Asks for one tenant, or for all, until an answer is not 404. */
async function searchTenants<T>(
  service: OperatorService,
  tenantAddress: string | undefined,
  lookUp: (tenantId: string) => Promise<T>,
): Promise<T | undefined> {
  const tenants = tenantAddress === undefined ? await allTenants(service) : [await findTenant(service, tenantAddress)]
  for (let start = 0; start < tenants.length; start += tenantsAtOnce) {
    const group = tenants.slice(start, start + tenantsAtOnce)
    const found = await Promise.all(group.map(async ({ id }) => await undefinedIfMissing(lookUp(id))))
    for (const hit of found) if (hit !== undefined) return hit
  }
  return undefined
}

async function undefinedIfMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof CliError && error.exitCode === exitCodes.notFound) return undefined
    throw error
  }
}

function notFoundIn(tenantAddress: string | undefined, what: 'id' | 'value'): never {
  throw notFoundError(
    tenantAddress === undefined ? `no tenant has a key with this ${what}` : `the tenant has no key with this ${what}`,
  )
}
