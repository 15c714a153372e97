import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type CreatedApiKey, type GrantableScope, createdApiKeySchema } from '@postern/contracts'
import { type Tenant, internalPaths, tenantSchema } from '@postern/contracts/internal'
import { type CallAnswer, type SignedCaller, operator } from '../signed-caller.ts'

export interface CreateKeyInput {
  readonly scopes: readonly GrantableScope[]
  readonly label?: string
  /** RFC 3339; default: in 30 days. */
  readonly expiresAt?: string
  readonly allowedAddresses?: readonly string[]
}

export interface OperatorActions {
  createTenant(slug?: string): Promise<Tenant>
  createKey(tenant: { readonly id: string }, input: CreateKeyInput): Promise<CreatedApiKey>
}

/** Repeats a call after a 503, which a busy machine can cause. */
async function whenServed(call: () => Promise<CallAnswer>): Promise<CallAnswer> {
  for (let triesLeft = 20; ; triesLeft -= 1) {
    const answer = await call()
    if (answer.status !== 503 || triesLeft === 0) return answer
    await delay(250)
  }
}

export function operatorActions(caller: SignedCaller): OperatorActions {
  return {
    createTenant: async (slug = `tenant-${randomBytes(6).toString('hex')}`) => {
      const body = { slug, name: `Test tenant ${slug}` }
      const { status, text, json } = await whenServed(
        async () => await caller.call(operator, 'POST', internalPaths.tenants, { body }),
      )
      if (status !== 201) throw new Error(`no tenant was created: ${status} ${text}`)
      return tenantSchema.parse(json)
    },
    createKey: async (tenant, { scopes, label = 'A test key', expiresAt, allowedAddresses }) => {
      const body = {
        label,
        scopes,
        ...(expiresAt === undefined ? { expires_in: '30d' } : { expires_in: 'custom', expires_at: expiresAt }),
        ...(allowedAddresses === undefined ? {} : { allowed_addresses: allowedAddresses }),
      }
      const principal = { ...operator, tenantId: tenant.id }
      const { status, text, json } = await whenServed(
        async () => await caller.call(principal, 'POST', '/api/v1/api-keys', { body }),
      )
      if (status !== 201) throw new Error(`no key was created: ${status} ${text}`)
      return createdApiKeySchema.parse(json)
    },
  }
}
