import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, problem } from '@postern/service-kit'
import type { GatewayClient } from '../api/gateway.ts'
import type { Provider } from '../sign-in/provider.ts'
import type { Session } from './content.ts'
import type { Sessions } from './sessions.ts'
import type { SessionStore } from './store.ts'

export interface Access {
  /** Undefined if the session has ended. */
  fresh(session: Session): Promise<Session | undefined>
  /** Ends the session of a person whom the directory has deactivated. Then undefined. */
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

/** A request still reaches the gateway then. */
const renewBeforeMs = 30_000
/** Longer than the provider and the gateway together. */
const lockMs = 15_000
const waitMs = 50

/**
 * One renewal per session at a time, across replicas: a provider with rotating refresh tokens treats a second use as
 * theft.
 */
export function createAccess(parts: AccessParts): Access {
  const { sessions, store, provider, gateway, now, logger } = parts
  const underWay = new Map<string, Promise<Session | undefined>>()
  const isFresh = (session: Session): boolean => session.content.tokens.accessExpiresAt - now() > renewBeforeMs

  async function renewAlone(session: Session): Promise<Session | undefined> {
    const deadline = performance.now() + lockMs
    for (;;) {
      const release = await store.lock(session.id, lockMs)
      // The previous lock holder may have renewed it.
      const current = await sessions.find(session.id)
      if (release === undefined) {
        if (current === undefined || isFresh(current)) return current
        if (performance.now() > deadline) throw unavailable()
        await delay(waitMs)
        continue
      }
      try {
        return current === undefined || isFresh(current) ? current : await renew(current)
      } finally {
        await release()
      }
    }
  }

  async function renew(session: Session): Promise<Session | undefined> {
    const { content, id } = session
    const { refresh } = content.tokens
    const isOver = content.tokens.accessExpiresAt <= now()
    if (refresh === undefined) return isOver ? await endFor('no_refresh_token', id) : session
    const result = await provider.refresh(refresh, content.subject)
    if (result.kind === 'ended') return await endFor('refused_by_provider', id)
    if (result.kind === 'unavailable') {
      if (isOver) throw unavailable(result.cause)
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

  async function refreshIfNeeded(session: Session): Promise<Session | undefined> {
    if (isFresh(session)) return session
    const before = underWay.get(session.id)
    if (before !== undefined) return await before
    const work = renewAlone(session)
    underWay.set(session.id, work)
    try {
      return await work
    } finally {
      underWay.delete(session.id)
    }
  }

  return {
    fresh: refreshIfNeeded,
    confirm: async (session) => {
      if (provider.settings.directory === undefined) return session
      const current = await refreshIfNeeded(session)
      if (current === undefined) return undefined
      const { tokens, tenant } = current.content
      const known = await gateway.whoIs(tokens.access, { tenantId: tenant.id })
      if (known.kind !== 'refused') return current
      const isOut = known.code === 'person_inactive' || known.code === 'person_unknown'
      return isOut ? await endFor(known.code, current.id) : current
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
