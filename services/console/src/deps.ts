import { join } from 'node:path'
import type { BaseDeps, Logger, Registry } from '@postern/service-kit'
import { observeRedis } from '@postern/service-kit/redis'
import { Counter, Gauge } from '@prometheus-io/client'
import { type GatewayClient, openGateway } from './api/gateway.ts'
import type { Config } from './config.ts'
import { type Cookies, createCookies } from './http/cookies.ts'
import { type BuiltPages, readBuiltPages } from './pages/assets.ts'
import { openRedis } from './redis.ts'
import { type Access, type AccessParts, createAccess } from './session/access.ts'
import { type Seal, createSeal } from './session/seal.ts'
import { type Sessions, createSessions, randomId } from './session/sessions.ts'
import { type SessionStore, createSessionStore } from './session/store.ts'
import type { Refusal } from './sign-in/complete.ts'
import { type Provider, createProvider } from './sign-in/provider.ts'

export interface SignIn {
  /** By issuer, in the order of the settings. */
  readonly providers: ReadonlyMap<string, Provider>
  readonly access: Access
  readonly attemptSeal: Seal
}

export interface Deps extends BaseDeps {
  readonly signIn: SignIn | undefined
  readonly gateway: GatewayClient
  readonly store: SessionStore
  readonly sessions: Sessions
  readonly cookies: Cookies
  readonly pages: BuiltPages | undefined
  count(outcome: 'signed_in' | Refusal): void
  now(): number
  readonly logger: Logger
}

// The path is the same from src and dist.
const pagesFolder = join(import.meta.dirname, '..', 'web', 'dist')

/** Opens connections without waiting for Redis, the gateway or the provider. */
export function openDeps(config: Config, base: { logger: Logger; metrics: Registry; now: () => number }): Deps {
  const { logger, now } = base
  const redis = openRedis(config.redisUrl, logger)
  observeRedis(base.metrics, [redis.health])
  const gateway = openGateway(config.gatewayUrl)
  let gatewayFound = false
  const store = createSessionStore(redis, createSeal(config.sessionRing, 'session'), randomId)
  const sessions = createSessions(store, config.session, now)
  const signIns = new Counter({
    name: 'postern_console_sign_ins_total',
    help: 'Sign-ins that returned from the provider, by outcome',
    labelNames: ['outcome'],
    registers: [base.metrics],
  })
  new Gauge({
    name: 'postern_console_sign_in_configured',
    help: 'Whether an OpenID provider is configured (1 or 0); without one, nobody can sign in',
    registers: [base.metrics],
  }).set(config.providers.length === 0 ? 0 : 1)
  return {
    signIn: openSignIn(config, { sessions, store, gateway, now, logger }),
    gateway,
    store,
    sessions,
    cookies: createCookies(config),
    pages: readBuiltPages(pagesFolder, config.basePath),
    count: (outcome) => signIns.inc({ outcome }),
    now,
    logger,
    // Sessions work without the provider, and pages show later failures of the gateway.
    ready: async () => {
      if (config.providers.length === 0) return
      await Promise.all([store.ping(), gatewayFound || gateway.ping()])
      gatewayFound = true
    },
    close: async () => {
      await gateway.close()
      redis.close()
    },
  }
}

function openSignIn(config: Config, parts: Omit<AccessParts, 'provider'>): SignIn | undefined {
  if (config.providers.length === 0) {
    parts.logger.warn({ event: 'sign_in_not_configured' })
    return undefined
  }
  const providers = new Map(
    config.providers.map((each): [string, Provider] => [each.issuer, createProvider(each, config, parts.now)]),
  )
  const accesses = new Map([...providers].map(([issuer, provider]) => [issuer, createAccess({ ...parts, provider })]))
  return {
    providers,
    // A session ends if its provider is no longer configured.
    access: {
      fresh: async (session, leftMs) => await accesses.get(session.content.issuer)?.fresh(session, leftMs),
      confirm: async (session) => await accesses.get(session.content.issuer)?.confirm(session),
    },
    attemptSeal: createSeal(config.sessionRing, 'attempt'),
  }
}
