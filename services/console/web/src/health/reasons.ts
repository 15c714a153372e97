import type { HealthReason } from '@postern/contracts'

export interface ReasonInfo {
  readonly reason: HealthReason
  readonly title: string
  readonly advice: string
  readonly action: 'edit' | 'revoke' | 'rotate' | 'open'
  readonly actionLabel: string
}

/** Most urgent first. */
export const reasonInfos: readonly ReasonInfo[] = [
  {
    reason: 'owner_left',
    title: 'Owner left',
    advice: 'The owner has left. Choose another owner, or revoke the key.',
    action: 'edit',
    actionLabel: 'Choose an owner',
  },
  {
    reason: 'rotated_in_use',
    title: 'Replaced, still used',
    advice: 'A program still uses the old key. Find out which one, and give it the new key before the old one expires.',
    action: 'open',
    actionLabel: 'See its use',
  },
  {
    reason: 'expiring',
    title: 'Expires within 30 days',
    advice: 'Rotate the key before its program is rejected.',
    action: 'rotate',
    actionLabel: 'Rotate',
  },
  {
    reason: 'outside_policy',
    title: 'Outside the policy',
    advice: 'The policy became stricter after the key was created. Narrow or replace the key.',
    action: 'edit',
    actionLabel: 'Edit',
  },
  {
    reason: 'never_used',
    title: 'Never used',
    advice: 'No program has ever used the key. Revoke it.',
    action: 'revoke',
    actionLabel: 'Revoke',
  },
  {
    reason: 'idle',
    title: 'Idle for 90 days',
    advice: 'Ask the owner, then revoke the key.',
    action: 'revoke',
    actionLabel: 'Revoke',
  },
  {
    reason: 'refused_often',
    title: 'Refused often',
    advice: 'One in ten requests of the last week was refused. See why, and tell whoever runs the program.',
    action: 'open',
    actionLabel: 'See why',
  },
  {
    reason: 'rotation_due',
    title: 'Due for rotation',
    advice: 'The key is older than the policy allows without a rotation.',
    action: 'rotate',
    actionLabel: 'Rotate',
  },
  {
    reason: 'unneeded_scopes',
    title: 'More scopes than it uses',
    advice: 'The key did not need some of its scopes in 30 days. Remove them.',
    action: 'open',
    actionLabel: 'See which',
  },
  {
    reason: 'wildcard',
    title: 'Wildcard scope',
    advice: 'Keep only the scopes that the program needs.',
    action: 'edit',
    actionLabel: 'Narrow',
  },
  {
    reason: 'no_address_limit',
    title: 'No address limit',
    advice: 'Limit the key to the addresses of its program.',
    action: 'edit',
    actionLabel: 'Limit',
  },
]

/** Undefined for unknown values. */
export function findReason(search: string): ReasonInfo | undefined {
  const wanted = new URLSearchParams(search).get('reason')
  return reasonInfos.find(({ reason }) => reason === wanted)
}
