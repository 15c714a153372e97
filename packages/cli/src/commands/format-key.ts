import type { ApiKey, Enforcement } from '@postern/contracts'
import { moment, formatSheet } from '../table.ts'

export function formatKey(key: ApiKey): string {
  const entries: [string, string][] = [
    ['id', key.id],
    ['label', key.label],
    ['note', key.note ?? '-'],
    ['owner', formatOwner(key.owner)],
    ['key', key.masked],
    ['state', key.state],
    ['scopes', key.scopes.join(' ')],
    ['addresses', key.allowed_addresses.length === 0 ? 'any' : key.allowed_addresses.join(' ')],
    ['created', `${moment(key.created_at)} by ${key.created_by.label}`],
    ['expires', moment(key.expires_at)],
    ['last used', moment(key.last_used_at)],
    ['last refused', moment(key.last_refused_at)],
  ]
  if (key.rotated_from !== null) entries.push(['rotated from', key.rotated_from])
  if (key.pending_overlap !== null) {
    entries.push(['overlap', `${key.pending_overlap}, from the first use of the new key`])
  }
  if (key.revoked_at !== null) {
    entries.push(['revoked', `${moment(key.revoked_at)} by ${key.revoked_by?.label ?? '-'}`])
    entries.push(['reason', key.revoke_reason ?? '-'])
  }
  return formatSheet(entries)
}

function formatOwner(owner: ApiKey['owner']): string {
  if (owner === null) return '-'
  const left = owner.left_at === null ? '' : `, left ${moment(owner.left_at)}`
  return `${owner.name} (${owner.contact ?? owner.id ?? '-'}${left})`
}

export function formatEnforcement(enforcement: Enforcement | null): string {
  if (enforcement === null) return ''
  const { gateways, confirmed, fenced } = enforcement
  return ` (gateways: ${gateways}, confirmed: ${confirmed}, fenced: ${fenced})`
}
