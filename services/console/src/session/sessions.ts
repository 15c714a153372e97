import { randomBytes } from 'node:crypto'
import type { Config } from '../config.ts'
import type { Session, SessionContent } from './content.ts'
import type { Owner, SessionStore } from './store.ts'

export interface Sessions {
  /** Undefined if the provider ended the sign-in in the meantime. */
  begin(content: Omit<SessionContent, 'createdAt' | 'csrfToken'>, begunAt: number): Promise<Session | undefined>
  find(id: string | undefined): Promise<Session | undefined>
  /** Extends the idle limit, unless it would gain only a few seconds. */
  use(session: Session): Promise<Session>
  replace(
    session: Session,
    change: Pick<SessionContent, 'tokens' | 'roles' | 'tenant' | 'canSwitch'>,
  ): Promise<Session | undefined>
  end(id: string): Promise<void>
  endOf(owner: Owner): Promise<number>
}

export function randomId(): string {
  return randomBytes(32).toString('base64url')
}

const idPattern = /^[A-Za-z0-9_-]{43}$/
const minTouchMs = 30_000

export function createSessions(store: SessionStore, limits: Config['session'], now: () => number): Sessions {
  const { idleMs, absoluteMs } = limits

  function sessionOf(id: string, content: SessionContent, seenAt: number): Session {
    const expiresAt = content.createdAt + absoluteMs
    return { id, content, expiresAt, idleExpiresAt: Math.min(seenAt + idleMs, expiresAt) }
  }

  return {
    begin: async (given, begunAt) => {
      const [id, createdAt] = [randomId(), now()]
      const content = { ...given, createdAt, csrfToken: randomId() }
      const session = sessionOf(id, content, createdAt)
      const isCreated = await store.create(id, content, {
        begunAt,
        seenAt: createdAt,
        endsAt: session.idleExpiresAt,
        lastEndsAt: session.expiresAt,
      })
      return isCreated ? session : undefined
    },
    find: async (id) => {
      if (id === undefined || !idPattern.test(id)) return undefined
      const found = await store.find(id)
      if (found === undefined) return undefined
      const session = sessionOf(id, found.content, found.seenAt)
      if (now() < session.idleExpiresAt) return session
      await store.remove(id)
      return undefined
    },
    use: async (session) => {
      const seenAt = now()
      const used = sessionOf(session.id, session.content, seenAt)
      const gained = used.idleExpiresAt - session.idleExpiresAt
      if (gained < Math.min(minTouchMs, idleMs / 10)) return session
      await store.touch(session.id, { seenAt, endsAt: used.idleExpiresAt })
      return used
    },
    replace: async (session, change) => {
      const content = { ...session.content, ...change }
      return (await store.replace(session.id, content)) ? { ...session, content } : undefined
    },
    end: store.remove,
    endOf: async (owner) => await store.removeOf(owner, now()),
  }
}
