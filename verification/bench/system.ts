import { randomBytes } from 'node:crypto'
import { generateKey, lastFourOf } from '@postern/api-key'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { type KeySet, hashOf, keyOf, keySet } from './key-set.ts'
import { measuredCore, pin } from './processes.ts'

export interface System {
  readonly stack: TestStack
  readonly tenant: { readonly id: string }
  /** Seeding through the services would take too long. */
  readonly sql: Client
  restartGateway(env: Readonly<Record<string, string>>, name?: `gateway-${number}`): Promise<number>
  setInRedis(name: string, value: string): Promise<void>
  emptyRedis(): Promise<void>
  stop(): Promise<void>
}

const unlimited = 2_000_000_000

export async function startSystem(gateways: number): Promise<System> {
  const stack = await startTestStack({
    gateways,
    env: { POSTERN_REQUEST_LOG: 'off', POSTERN_CHECK_ANSWERS: 'off', NODE_ENV: 'production' },
  })
  const sql = new Client({ connectionString: stack.database.url('superuser') })
  try {
    await sql.connect()
    const tenant = await stack.createTenant('bench')
    await sql.query('update keys.tenant set key_limit = $1, tenant_limit = $1', [unlimited])
    pin(stack.process('gateway-1').pid, measuredCore)
    return {
      stack,
      tenant,
      sql,
      restartGateway: async (env, name = 'gateway-1') => {
        await stack.restart(name, env)
        const { pid } = stack.process(name)
        pin(pid, measuredCore)
        return pid
      },
      emptyRedis: async () => {
        const redis = new Redis(stack.redis.url)
        await redis.flushall()
        redis.disconnect()
      },
      setInRedis: async (name, value) => {
        const redis = new Redis(stack.redis.url)
        await redis.set(name, value)
        redis.disconnect()
      },
      stop: async () => {
        await sql.end()
        await stack.stop()
      },
    }
  } catch (error) {
    await sql.end()
    await stack.stop()
    throw error
  }
}

const perInsert = 20_000

export async function seedTenants({ sql }: Pick<System, 'sql'>, count: number): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    `insert into keys.tenant (slug, name, key_limit, tenant_limit)
     select 'bench-' || $3 || '-' || n, 'Bench ' || n, $2, $2 from generate_series(1, $1::integer) as n
     returning tenant_id as id`,
    [count, unlimited, randomBytes(4).toString('hex')],
  )
  return rows.map(({ id }) => id)
}

/** The same `seed` gives the same keys. */
export async function seedKeys(
  { sql, tenant }: Pick<System, 'sql' | 'tenant'>,
  count: number,
  tenants: readonly string[] = [tenant.id],
  seed: string = generateKey().value,
): Promise<KeySet> {
  const set = keySet(seed, count)
  for (let from = 0; from < count; from += perInsert) {
    const numbers = Array.from({ length: Math.min(perInsert, count - from) }, (_none, at) => from + at)
    await sql.query(
      `insert into keys.api_key (tenant_id, hash, last_four, label, scopes, created_by_type, created_by_id,
         created_by_label, expires_at, made_for)
       select k.tenant_id, decode(k.hash, 'hex'), k.last_four, 'bench', array['read:findings'], 'operator', 'bench', 'bench',
         now() + interval '30 days', interval '30 days'
       from unnest($1::uuid[], $2::text[], $3::text[]) as k (tenant_id, hash, last_four)`,
      [
        numbers.map((number) => tenants[number % tenants.length]),
        numbers.map((number) => hashOf(set, number)),
        numbers.map((number) => lastFourOf(keyOf(set.prefix, number))),
      ],
    )
  }
  return set
}
