import { hash } from 'node:crypto'
import type { RedisConnection } from '../redis.ts'
import type { SessionContent } from './content.ts'
import { sessionContentSchema } from './content.ts'
import type { Seal } from './seal.ts'

/** Stores sessions encrypted, under the SHA-256 of their id. */
export interface SessionStore {
  /** False if the provider ended the sign-in in the meantime. */
  create(id: string, content: SessionContent, times: FirstTimes): Promise<boolean>
  find(id: string): Promise<{ readonly content: SessionContent; readonly seenAt: number } | undefined>
  /** Records a use, unless the session has ended. */
  touch(id: string, times: Times): Promise<void>
  /** Returns false if the session has ended. */
  replace(id: string, content: SessionContent): Promise<boolean>
  remove(id: string): Promise<void>
  /** Also ends sessions that are being created. Returns how many ended. */
  removeOf(owner: Owner, endedAt: number): Promise<number>
  /** Returns true for the first call with a mark within its lifetime. */
  markOnce(mark: string, lifeMs: number): Promise<boolean>
  isMarked(mark: string): Promise<boolean>
  unmark(mark: string): Promise<void>
  /** Stores an encrypted text that `takeOnce` returns once. */
  putOnce(id: string, text: string, lifeMs: number): Promise<void>
  takeOnce(id: string): Promise<string | undefined>
  /** Undefined if the lock is taken. */
  lock(id: string, lifeMs: number): Promise<(() => Promise<void>) | undefined>
  ping(): Promise<void>
}

export interface Times {
  readonly seenAt: number
  readonly endsAt: number
}

export interface FirstTimes extends Times {
  readonly begunAt: number
  /** When the session ends regardless of use. */
  readonly lastEndsAt: number
}

export type Owner =
  | { readonly kind: 'subject'; readonly issuer: string; readonly value: string }
  | { readonly kind: 'sid'; readonly issuer: string; readonly value: string }
  | { readonly kind: 'unnamed'; readonly issuer: string; readonly value: string }

const prefix = 'postern:console'
/** Longer than a sign-in and the choice of a tenant may take. */
const endedLifeMs = 900_000

// Update only: a late write must not revive an ended session.
const touchScript = `if redis.call('exists', KEYS[1]) == 1 then
  redis.call('hset', KEYS[1], 'seen', ARGV[1]) redis.call('pexpireat', KEYS[1], ARGV[2]) end`
const replaceScript = `if redis.call('exists', KEYS[1]) == 0 then return 0 end
  redis.call('hset', KEYS[1], 'content', ARGV[1]) return 1`
const unlockScript = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end`

/** One key per script and transaction, for Redis Cluster. */
export function createSessionStore(redis: RedisConnection, seal: Seal, randomId: () => string): SessionStore {
  return {
    create: async (id, content, { begunAt, seenAt, endsAt, lastEndsAt }) => {
      const digest = digestOf(id)
      const key = sessionKey(digest)
      return await redis.run(async (commands) => {
        // Indexes first: the provider must be able to end every session.
        for (const owner of ownersOf(content)) {
          await commands.multi().sadd(ownerKey(owner), digest).pexpireat(ownerKey(owner), lastEndsAt).exec()
        }
        const sealed = seal.close(JSON.stringify(content), key, id)
        await commands.multi().hset(key, { content: sealed, seen: seenAt }).pexpireat(key, endsAt).exec()
        // The provider may have ended the sign-in before the session was there to be removed.
        for (const owner of ownersOf(content)) {
          const endedAt = await commands.get(keyOfEnded(owner))
          if (endedAt === null || (owner.kind !== 'sid' && Number(endedAt) < begunAt)) continue
          await commands.unlink(key)
          return false
        }
        return true
      })
    },
    find: async (id) => {
      const key = sessionKey(digestOf(id))
      const [sealed, seen] = await redis.run(async (commands) => await commands.hmget(key, 'content', 'seen'))
      if (sealed === undefined || sealed === null || seen === undefined || seen === null) return undefined
      const text = seal.open(sealed, key, id)
      if (text === undefined) return undefined
      return { content: sessionContentSchema.parse(JSON.parse(text)), seenAt: Number(seen) }
    },
    touch: async (id, { seenAt, endsAt }) => {
      await redis.run(async (commands) => await commands.eval(touchScript, 1, sessionKey(digestOf(id)), seenAt, endsAt))
    },
    replace: async (id, content) => {
      const key = sessionKey(digestOf(id))
      const sealed = seal.close(JSON.stringify(content), key, id)
      return (await redis.run(async (commands) => await commands.eval(replaceScript, 1, key, sealed))) === 1
    },
    remove: async (id) => {
      await redis.run(async (commands) => await commands.unlink(sessionKey(digestOf(id))))
    },
    removeOf: async (owner, endedAt) => {
      const key = ownerKey(owner)
      return await redis.run(async (commands) => {
        await commands.set(keyOfEnded(owner), endedAt, 'PX', endedLifeMs)
        let removed = 0
        for (const digest of await commands.smembers(key)) removed += await commands.unlink(sessionKey(digest))
        await commands.unlink(key)
        return removed
      })
    },
    markOnce: async (mark, lifeMs) =>
      (await redis.run(async (commands) => await commands.set(keyOfMark(mark), '1', 'PX', lifeMs, 'NX'))) === 'OK',
    isMarked: async (mark) => (await redis.run(async (commands) => await commands.exists(keyOfMark(mark)))) > 0,
    unmark: async (mark) => {
      await redis.run(async (commands) => await commands.unlink(keyOfMark(mark)))
    },
    putOnce: async (id, text, lifeMs) => {
      const key = keyOfKept(id)
      await redis.run(async (commands) => await commands.set(key, seal.close(text, key, id), 'PX', lifeMs))
    },
    takeOnce: async (id) => {
      const key = keyOfKept(id)
      return await redis.run(async (commands) => {
        const sealed = await commands.get(key)
        if (sealed === null || (await commands.unlink(key)) === 0) return undefined
        return seal.open(sealed, key, id)
      })
    },
    lock: async (id, lifeMs) => {
      const key = `${prefix}:refresh:${digestOf(id)}`
      const mine = randomId()
      const taken = await redis.run(async (commands) => await commands.set(key, mine, 'PX', lifeMs, 'NX'))
      if (taken !== 'OK') return undefined
      return async () => {
        await redis.run(async (commands) => await commands.eval(unlockScript, 1, key, mine))
      }
    },
    ping: async () => {
      await redis.run(async (commands) => await commands.ping())
    },
  }
}

function digestOf(id: string): string {
  return hash('sha256', id, 'base64url')
}

function sessionKey(digest: string): string {
  return `${prefix}:session:${digest}`
}

function ownersOf({ issuer, subject, sid }: SessionContent): Owner[] {
  const signIn: Owner =
    sid === undefined ? { kind: 'unnamed', issuer, value: subject } : { kind: 'sid', issuer, value: sid }
  return [{ kind: 'subject', issuer, value: subject }, signIn]
}

function ownerKey({ kind, issuer, value }: Owner): string {
  return `${prefix}:${kind}:${digestOf(JSON.stringify([issuer, value]))}`
}

function keyOfEnded({ kind, issuer, value }: Owner): string {
  return `${prefix}:ended:${digestOf(JSON.stringify([kind, issuer, value]))}`
}

function keyOfMark(mark: string): string {
  return `${prefix}:used:${digestOf(mark)}`
}

function keyOfKept(id: string): string {
  return `${prefix}:kept:${digestOf(id)}`
}
