import type { OwnerChoice } from '@postern/contracts'
import { usageError } from './cli-error.ts'

export interface OwnerOptions {
  readonly owner?: string
  readonly ownerTeam?: string
  readonly ownerContact?: string
}

export function parseOwner({ owner, ownerTeam, ownerContact }: OwnerOptions): OwnerChoice | undefined {
  const isTeam = ownerTeam !== undefined || ownerContact !== undefined
  if (owner !== undefined && isTeam)
    throw usageError('name a person with --owner, or a team with --owner-team, not both')
  if (owner !== undefined) return { type: 'person', id: owner }
  if (!isTeam) return undefined
  if (ownerTeam === undefined || ownerContact === undefined) {
    throw usageError('--owner-team and --owner-contact belong together')
  }
  return { type: 'team', name: ownerTeam, contact: ownerContact }
}
