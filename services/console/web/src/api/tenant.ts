import type { KeyPolicy, Member } from '@postern/contracts'
import { readAllPages } from './list.ts'
import { request } from './request.ts'

export type { KeyPolicy, Member }

export interface TaggedPolicy {
  readonly policy: KeyPolicy
  readonly etag: string
}

const policyPath = '/api/v1/key-policy'

export async function readKeyPolicy(signal: AbortSignal): Promise<TaggedPolicy> {
  const { body, headers } = await request<KeyPolicy>(policyPath, { signal })
  return { policy: body, etag: headers.get('etag') ?? '' }
}

export type PolicyChange = Partial<Omit<KeyPolicy, 'changed_at' | 'changed_by' | 'version'>>

export async function changeKeyPolicy(change: PolicyChange, etag: string, signal: AbortSignal): Promise<TaggedPolicy> {
  const { body, headers } = await request<KeyPolicy>(policyPath, {
    method: 'PATCH',
    body: change,
    headers: { 'if-match': etag },
    signal,
  })
  return { policy: body, etag: headers.get('etag') ?? '' }
}

export async function listMembers(signal: AbortSignal): Promise<readonly Member[]> {
  return await readAllPages('/api/v1/members?limit=1000', signal)
}
