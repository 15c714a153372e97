import type { EvidenceFile, EvidencePolicy, StoredCustodyEvent } from '@postern/contracts'
import { type CallOptions, type Connection, fillPath } from './connection.ts'
import { etagOf } from './etag.ts'
import { type BodyOf, type QueryOf, operations } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'
import { type ChangeOptions, type Readable, type Target, addressOf, readable } from './resource.ts'

/**
 * For the access token of a person: with the role `auditor` what is known of evidence, and what it is; with the role `admin`
 * also who had it in hand, and deciding about it.
 */
export interface Custody extends Readable<EvidenceFile> {
  /** Newest first where not asked otherwise; `status: 'quarantined'` is the quarantine. */
  list(filter?: QueryOf<'listEvidenceFiles'>, options?: CallOptions): Pages<EvidenceFile>
  /** The bytes of a file, as they come: `.bytes()` or `.body`. Whoever asks is noted in the custody of the file. */
  content(target: Target, options?: CallOptions): Promise<Response>
  /** Who had a file in hand, oldest first. */
  events(target: Target, query?: QueryOf<'listCustodyEvents'>, options?: CallOptions): Pages<StoredCustodyEvent>
  /** Takes a file out of quarantine. */
  release(target: Target, decision: BodyOf<'releaseEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** Deletes the bytes of a file whose retention is over. */
  purge(target: Target, decision: BodyOf<'purgeEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** Keeps a file from being purged until the hold is lifted. */
  hold(target: Target, decision: BodyOf<'holdEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  liftHold(target: Target, decision: BodyOf<'liftHoldOfEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** For auditors: a verdict on a file. */
  review(target: Target, verdict: BodyOf<'reviewEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** How long the tenant keeps evidence. */
  policy(options?: CallOptions): Promise<EvidencePolicy>
  /** Changes it if it is still as it was read: 412 `precondition_failed` when somebody was faster. */
  updatePolicy(
    policy: EvidencePolicy,
    patch: BodyOf<'updateEvidencePolicy'>,
    options?: ChangeOptions,
  ): Promise<EvidencePolicy>
}

export function openCustody(connection: Connection): Custody {
  return {
    ...readable(connection, 'getEvidenceFile'),
    list: (filter, options = {}) => pagesOf(connection, 'listEvidenceFiles', {}, filter, options),
    content: async (target, { signal } = {}) => {
      const [method, path] = operations.readEvidenceContent
      const headers = { accept: 'application/octet-stream' }
      return await connection.send({
        method,
        target: fillPath(path, { id: addressOf(target) }),
        headers,
        signal,
        isLong: true,
      })
    },
    events: (target, query, options = {}) =>
      pagesOf(connection, 'listCustodyEvents', { id: addressOf(target) }, query, options),
    release: async (target, body, options = {}) =>
      await connection.call('releaseEvidence', { params: { id: addressOf(target) }, body, ...options }),
    purge: async (target, body, options = {}) =>
      await connection.call('purgeEvidence', { params: { id: addressOf(target) }, body, ...options }),
    hold: async (target, body, options = {}) =>
      await connection.call('holdEvidence', { params: { id: addressOf(target) }, body, ...options }),
    liftHold: async (target, body, options = {}) =>
      await connection.call('liftHoldOfEvidence', { params: { id: addressOf(target) }, body, ...options }),
    review: async (target, body, options = {}) =>
      await connection.call('reviewEvidence', { params: { id: addressOf(target) }, body, ...options }),
    policy: async (options = {}) => await connection.call('getEvidencePolicy', options),
    updatePolicy: async (policy, body, { ifMatch = etagOf(policy), signal } = {}) =>
      await connection.call('updateEvidencePolicy', {
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
        body,
        signal,
      }),
  }
}
