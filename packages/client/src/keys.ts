import type {
  ApiKey,
  ApiKeyEvent,
  CreatedApiKey,
  KeyPolicy,
  KeyPolicyEvent,
  LeakReceipt,
  Member,
} from '@postern/contracts'
import { type AnonymousOptions, type CallOptions, type Connection, connect } from './connection.ts'
import { etagOf } from './etag.ts'
import type { AnswerOf, BodyOf, QueryOf } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'
import {
  type ChangeOptions,
  type Changeable,
  type Readable,
  type Target,
  addressOf,
  changeableMethods,
  readableMethods,
} from './resource.ts'

/** Needs the access token of a person with the role `admin`. */
export interface Keys extends Readable<ApiKey>, Changeable<ApiKey, BodyOf<'updateApiKey'>, ApiKey> {
  list(filter?: QueryOf<'listApiKeys'>, options?: CallOptions): Pages<ApiKey>
  /** Only this response contains the value of the key. */
  create(key: BodyOf<'createApiKey'>, options?: CallOptions): Promise<CreatedApiKey>
  /** Finds a key by its whole value. Throws 404 `not_found`. */
  find(value: string, options?: CallOptions): Promise<ApiKey>
  /** Returns when no gateway accepts the key any more. */
  revoke(target: Target, body?: BodyOf<'revokeApiKey'>, options?: CallOptions): Promise<AnswerOf<'revokeApiKey'>>
  /** Creates a replacement. The old key expires after the overlap. */
  rotate(target: Target, body?: BodyOf<'rotateApiKey'>, options?: CallOptions): Promise<CreatedApiKey>
  /** Lists keys to change together, and who used them in the last 24 hours. */
  previewBulk(keys: BodyOf<'previewBulk'>, options?: CallOptions): Promise<AnswerOf<'previewBulk'>>
  /** Changes all of the keys or none. Throws 412 `precondition_failed` if one of them changed after the preview. */
  changeMany(change: BodyOf<'changeKeys'>, options?: CallOptions): Promise<AnswerOf<'changeKeys'>>
  /** The audit trail of the key, newest first. */
  events(target: Target, query?: QueryOf<'listApiKeyEvents'>, options?: CallOptions): Pages<ApiKeyEvent>
  /** The requests of the key by day and by route. */
  usage(target: Target, options?: CallOptions): Promise<AnswerOf<'getApiKeyUsage'>>
  /** What a gateway would decide about a request with the key, step by step. Sends nothing. */
  explain(target: Target, request: BodyOf<'explainRequest'>, options?: CallOptions): Promise<AnswerOf<'explainRequest'>>
  /** The number of keys that need attention, by reason. */
  health(options?: CallOptions): Promise<AnswerOf<'getKeyHealth'>>
  /** Reports leaked keys. Those that exist are revoked, in whatever tenant. */
  reportLeak(values: readonly string[], options?: CallOptions): Promise<LeakReceipt>
  /** The tenant's rules for keys. */
  policy(options?: CallOptions): Promise<AnswerOf<'getKeyPolicy'>>
  /** Throws 412 `precondition_failed` if somebody changed the policy since it was read. */
  updatePolicy(policy: KeyPolicy, patch: BodyOf<'updateKeyPolicy'>, options?: ChangeOptions): Promise<KeyPolicy>
  /** The changes of the policy, newest first. */
  policyEvents(query?: QueryOf<'listKeyPolicyEvents'>, options?: CallOptions): Pages<KeyPolicyEvent>
  /** The people who have signed in. */
  members(query?: QueryOf<'listMembers'>, options?: CallOptions): Pages<Member>
}

/** Reports leaked keys without credentials: whoever has a key may do so. Those that exist are revoked. */
export async function reportLeakedKeys(
  options: Omit<AnonymousOptions, 'isAnonymous'>,
  values: readonly string[],
): Promise<LeakReceipt> {
  return await reportLeak(connect({ ...options, isAnonymous: true }), values, {})
}

async function reportLeak(
  connection: Connection,
  values: readonly string[],
  options: CallOptions,
): Promise<LeakReceipt> {
  return await connection.call('reportLeakedKeys', { body: { keys: [...values] }, ...options })
}

export function openKeys(connection: Connection): Keys {
  return {
    ...readableMethods(connection, 'getApiKey'),
    ...changeableMethods(connection, 'getApiKey', 'updateApiKey'),
    list: (filter, options = {}) => pagesOf(connection, 'listApiKeys', {}, filter, options),
    create: async (body, options = {}) => await connection.call('createApiKey', { body, ...options }),
    find: async (key, options = {}) => await connection.call('findApiKey', { body: { key }, ...options }),
    revoke: async (target, body = {}, options = {}) =>
      await connection.call('revokeApiKey', { params: { id: addressOf(target) }, body, ...options }),
    rotate: async (target, body = {}, options = {}) =>
      await connection.call('rotateApiKey', { params: { id: addressOf(target) }, body, ...options }),
    previewBulk: async (body, options = {}) => await connection.call('previewBulk', { body, ...options }),
    changeMany: async (body, options = {}) => await connection.call('changeKeys', { body, ...options }),
    events: (target, query, options = {}) =>
      pagesOf(connection, 'listApiKeyEvents', { id: addressOf(target) }, query, options),
    usage: async (target, options = {}) =>
      await connection.call('getApiKeyUsage', { params: { id: addressOf(target) }, ...options }),
    explain: async (target, body, options = {}) =>
      await connection.call('explainRequest', { params: { id: addressOf(target) }, body, ...options }),
    health: async (options = {}) => await connection.call('getKeyHealth', options),
    reportLeak: async (values, options = {}) => await reportLeak(connection, values, options),
    policy: async (options = {}) => await connection.call('getKeyPolicy', options),
    updatePolicy: async (policy, body, { ifMatch = etagOf(policy), signal } = {}) =>
      await connection.call('updateKeyPolicy', {
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
        body,
        signal,
      }),
    policyEvents: (query, options = {}) => pagesOf(connection, 'listKeyPolicyEvents', {}, query, options),
    members: (query, options = {}) => pagesOf(connection, 'listMembers', {}, query, options),
  }
}
