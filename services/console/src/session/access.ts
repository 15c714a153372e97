import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, problem } from '@postern/service-kit'
import { type GatewayClient, whoIsWithinMs } from '../api/gateway.ts'
import { type Provider, refreshWithinMs } from '../sign-in/provider.ts'
import type { Session } from './content.ts'
import type { Sessions } from './sessions.ts'
import type { SessionStore } from './store.ts'

export interface Access {
  /** Renews the access token if it expires within `leftMs`. Undefined if the session has ended. */
  fresh(session: Session, leftMs?: number): Promise<Session | undefined>
  /** Ends the session if the directory has deactivated the person. Undefined if the session has ended. */
  confirm(session: Session): Promise<Session | undefined>
}

export interface AccessParts {
  readonly sessions: Sessions
  readonly store: Pick<SessionStore, 'lock'>
  readonly provider: Pick<Provider, 'refresh' | 'settings'>
  readonly gateway: Pick<GatewayClient, 'whoIs'>
  readonly now: () => number
  readonly logger: Logger
}

/** Leaves a request enough time to reach the gateway. */
const renewBeforeMs = 30_000
/** Longer than a renewal can take at the provider, the gateway and Redis. */
const lockMs = refreshWithinMs + whoIsWithinMs + 2000
const pollMs = 50

/**
 * One renewal per session at a time, across replicas: a provider with rotating refresh tokens treats a second use as
 * theft.
 */
export function createAccess(parts: AccessParts): Access {
  const { sessions, store, provider, gateway, now, logger } = parts
  const renewals = new Map<string, Promise<Session | undefined>>()
  const isFresh = (session: Session, leftMs: number): boolean => session.content.tokens.accessExpiresAt - now() > leftMs

  async function renewWithLock(session: Session, leftMs: number): Promise<Session | undefined> {
    const deadline = performance.now() + lockMs
    for (;;) {
      const release = await store.lock(session.id, lockMs)
      // The previous lock holder may have renewed it.
      const current = await sessions.find(session.id)
      if (release === undefined) {
        if (current === undefined || isFresh(current, leftMs)) return current
        if (performance.now() > deadline) throw unavailable()
        await delay(pollMs)
        continue
      }
      try {
        return current === undefined || isFresh(current, leftMs) ? current : await renew(current)
      } finally {
        await release()
      }
    }
  }

  async function renew(session: Session): Promise<Session | undefined> {
    const { content, id } = session
    const { refresh } = content.tokens
    const hasExpired = content.tokens.accessExpiresAt <= now()
    if (refresh === undefined) return hasExpired ? await endFor('no_refresh_token', id) : session
    const result = await provider.refresh(refresh, content.subject)
    if (result.kind === 'ended') return await endFor('refused_by_provider', id)
    if (result.kind === 'unavailable') {
      if (hasExpired) throw unavailable(result.cause)
      logger.warn({ event: 'token_renewal_failed', err: result.cause })
      return session
    }
    const tokens = {
      ...result.tokens,
      refresh: result.tokens.refresh ?? refresh,
      id: result.tokens.id ?? content.tokens.id,
    }
    const known = await gateway.whoIs(tokens.access, { tenantId: content.tenant.id })
    if (known.kind === 'refused') return await endFor('refused_by_gateway', id)
    // Roles may change within a session, but not the tenant.
    if (known.kind === 'person' && known.tenant?.id !== content.tenant.id) return await endFor('other_tenant', id)
    if (known.kind !== 'person') return await sessions.replace(session, { ...content, tokens })
    const { tenant, tenants, roles } = known
    const change = { tokens, tenant: tenant ?? content.tenant, roles: [...roles], canSwitch: tenants.length > 1 }
    return await sessions.replace(session, change)
  }

  async function endFor(reason: string, id: string): Promise<undefined> {
    await sessions.end(id)
    logger.info({ event: 'session_ended', reason })
    return undefined
  }

  async function renewIfNeeded(session: Session, leftMs = renewBeforeMs): Promise<Session | undefined> {
    if (isFresh(session, leftMs)) return session
    const running = renewals.get(session.id)
    if (running !== undefined) return await running
    const work = renewWithLock(session, leftMs)
    renewals.set(session.id, work)
    try {
      return await work
    } finally {
      renewals.delete(session.id)
    }
  }

  return {
    fresh: renewIfNeeded,
    confirm: async (session) => {
      if (provider.settings.directory === undefined) return session
      const current = await renewIfNeeded(session)
      if (current === undefined) return undefined
      const { tokens, tenant } = current.content
      const known = await gateway.whoIs(tokens.access, { tenantId: tenant.id })
      if (known.kind !== 'refused') return current
      const isDeactivated = known.code === 'person_inactive' || known.code === 'person_unknown'
      return isDeactivated ? await endFor(known.code, current.id) : current
    },
  }
}

function unavailable(cause?: unknown): Error {
  return problem('auth_unavailable', {
    detail: 'The sign-in provider is not available. Try again in a moment.',
    retryAfterSeconds: 5,
    cause,
  })
}
