import { type ApiKey, type CreatedApiKey, apiKeySchema, createdApiKeySchema } from '@postern/contracts'
import type { Tenant } from '@postern/contracts/internal'
import { type CommandResult, type TestStack, startTestStack } from '@postern/local-stack/testing'
import { expect } from 'vitest'
import { run } from '../src/run.ts'

/** A system with two tenants, and the command of its operator. */
export interface CommandWorld {
  readonly stack: TestStack
  readonly tenant: Tenant
  readonly other: Tenant
  /** Runs the command in this process, against the stack unless `env` says otherwise. */
  postern(args: readonly string[], env?: Record<string, string>, input?: string): Promise<CommandResult>
  /** The arguments that make a key; the last of an option counts. */
  withDefaults(...args: readonly string[]): readonly string[]
  createKey(...args: readonly string[]): Promise<CreatedApiKey>
  show(id: string): Promise<ApiKey>
  whoAmI(key: string): Promise<Response>
  readFindings(key: string): Promise<number>
}

export async function openCommandWorld(): Promise<CommandWorld> {
  const stack = await startTestStack()
  const [tenant, other] = await Promise.all([stack.createTenant(), stack.createTenant()])

  const postern: CommandWorld['postern'] = async (args, env = {}, input = '') => {
    const texts = { out: '', err: '' }
    const code = await run(
      args,
      {
        POSTERN_KEYS_URL: stack.serviceUrl('keys'),
        POSTERN_SIGNING_OPERATOR: stack.ring('POSTERN_SIGNING_OPERATOR'),
        POSTERN_ASSERTION_KEYS: stack.database.assertionKeys,
        ...env,
      },
      { out: (text) => (texts.out += text), err: (text) => (texts.err += text), input: async () => input },
    )
    return { code, stdout: texts.out, stderr: texts.err }
  }

  const withDefaults: CommandWorld['withDefaults'] = (...args) => {
    const words = `keys create --tenant ${tenant.slug} --label made-by-a-test --scope read:findings --expires 30d --json`
    return [...words.split(' '), ...args]
  }

  /** Retries while the gateway has no lease, as on a busy machine. */
  const ask = async (path: string, key: string): Promise<Response> => {
    for (;;) {
      const answer = await fetch(`${stack.gateways[0]}${path}`, { headers: { authorization: `ApiKey ${key}` } })
      if (!(await answer.clone().text()).includes('auth_unavailable')) return answer
    }
  }

  return {
    stack,
    tenant,
    other,
    postern,
    withDefaults,
    createKey: async (...args) => {
      const { code, stdout, stderr } = await postern(withDefaults(...args))
      expect(stderr).toBe('')
      expect(code).toBe(0)
      return createdApiKeySchema.parse(JSON.parse(stdout))
    },
    show: async (id) => apiKeySchema.parse(JSON.parse((await postern(['keys', 'show', id, '--json'])).stdout)),
    whoAmI: async (key) => await ask('/api/v1/whoami', key),
    readFindings: async (key) => (await ask('/api/v1/findings', key)).status,
  }
}
