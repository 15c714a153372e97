import type { EvidenceFile, EvidencePolicy, StoredCustodyEvent } from '@postern/contracts'
import { type CallOptions, type Connection, fillPath } from './connection.ts'
import { etagOf } from './etag.ts'
import { type BodyOf, type QueryOf, operations } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'
import { type ChangeOptions, type Readable, type Target, addressOf, readableMethods } from './resource.ts'

/** Needs a person's access token: `auditor` reads evidence; `admin` also reads its custody and decides. */
export interface Custody extends Readable<EvidenceFile> {
  /** Newest first by default. `status: 'quarantined'` lists the quarantine. */
  list(filter?: QueryOf<'listEvidenceFiles'>, options?: CallOptions): Pages<EvidenceFile>
  /** Returns a file's bytes; use `.bytes()` or `.body`. The custody records the access. */
  content(target: Target, options?: CallOptions): Promise<Response>
  /** Everyone who accessed a file, oldest first. */
  events(target: Target, query?: QueryOf<'listCustodyEvents'>, options?: CallOptions): Pages<StoredCustodyEvent>
  /** Releases a file from quarantine. */
  release(target: Target, decision: BodyOf<'releaseEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** Deletes the bytes of a file whose retention period has ended. */
  purge(target: Target, decision: BodyOf<'purgeEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** Prevents the purge of a file until the hold is lifted. */
  hold(target: Target, decision: BodyOf<'holdEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  liftHold(target: Target, decision: BodyOf<'liftHoldOfEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  /** Records an auditor's verdict on a file. */
  review(target: Target, verdict: BodyOf<'reviewEvidence'>, options?: CallOptions): Promise<EvidenceFile>
  policy(options?: CallOptions): Promise<EvidencePolicy>
  /** Throws 412 `precondition_failed` if somebody changed the policy since it was read. */
  updatePolicy(
    policy: EvidencePolicy,
    patch: BodyOf<'updateEvidencePolicy'>,
    options?: ChangeOptions,
  ): Promise<EvidencePolicy>
}

export function openCustody(connection: Connection): Custody {
  return {
    ...readableMethods(connection, 'getEvidenceFile'),
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
