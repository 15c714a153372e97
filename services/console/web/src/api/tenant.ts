import type { KeyPolicy, Member } from '@postern/contracts'
import { nextPage } from './keys.ts'
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
  const members: Member[] = []
  let next: string | undefined = '/api/v1/members?limit=1000'
  while (next !== undefined) {
    const { body, headers }: { body: readonly Member[]; headers: Headers } = await request<readonly Member[]>(next, {
      signal,
    })
    members.push(...body)
    next = nextPage(headers.get('link'))
  }
  return members
}
