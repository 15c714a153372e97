// Stands in for @postern/local-stack/testing where tests run on containers: the stack is the installation of this run.
import { randomBytes } from 'node:crypto'
import { createdApiKeySchema, type CreatedApiKey } from '@postern/contracts'
import { type Tenant, tenantSchema } from '@postern/contracts/internal'
import type { CreateKeyInput } from '../../packages/local-stack/src/testing/index.ts'
import { findInstallation } from './installation.ts'

export * from '../../packages/local-stack/src/testing/index.ts'

/** What of a test stack there is here: what needs a process of its own, or a variable, is not. */
export interface ContainerStack {
  readonly gateways: readonly string[]
  createTenant(slug?: string): Promise<Tenant>
  createKey(tenant: { readonly id: string }, input: CreateKeyInput): Promise<CreatedApiKey>
  stop(): Promise<void>
}

/** The installation of this run, in the shape of a test stack. */
export async function startTestStack(): Promise<ContainerStack> {
  const { installation, operator } = findInstallation()
  return {
    gateways: installation.gateways.map(({ url }) => url),
    createTenant: async (slug = `tenant-${randomBytes(6).toString('hex')}`) =>
      tenantSchema.parse(JSON.parse(await operator('tenants', 'create', slug, '--name', `Test ${slug}`, '--json'))),
    createKey: async (tenant, { scopes, label = 'A test key', expiresAt = '30d', allowedAddresses }) => {
      const options = ['--tenant', tenant.id, '--label', label, '--expires', expiresAt]
      if (allowedAddresses !== undefined) options.push('--address', ...allowedAddresses)
      const text = await operator('keys', 'create', ...options, '--json', '--scope', ...scopes)
      return createdApiKeySchema.parse(JSON.parse(text))
    },
    stop: async () => undefined,
  }
}
