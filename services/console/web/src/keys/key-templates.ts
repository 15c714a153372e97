import { type GrantableScope, grantableScopes, keyValuePattern } from '@postern/contracts'
import type { Expiry } from '../api/keys.ts'

export interface Prefill {
  readonly label: string
  readonly scopes: readonly GrantableScope[]
  /** Undefined: the usual one. */
  readonly expiry: Exclude<Expiry, 'custom'> | undefined
  readonly addresses: readonly string[]
}

interface Template {
  readonly name: string
  readonly scopes: readonly GrantableScope[]
  readonly expiry: Exclude<Expiry, 'custom'>
}

export const templates = {
  'power-bi': { name: 'Power BI', scopes: ['read:universe', 'read:findings'], expiry: '1y' },
  'ticket-bridge': { name: 'Ticket bridge', scopes: ['read:findings', 'write:findings'], expiry: '90d' },
  'evidence-robot': { name: 'Evidence robot', scopes: ['write:evidence'], expiry: '90d' },
  'directory-sync': { name: 'Directory sync', scopes: ['admin:sync'], expiry: '1y' },
  'read-everything': { name: 'Read everything', scopes: ['read:*'], expiry: '30d' },
} as const satisfies Readonly<Record<string, Template>>
export type TemplateId = keyof typeof templates

export function isTemplateId(text: string): text is TemplateId {
  return Object.hasOwn(templates, text)
}

const noPrefill: Prefill = { label: '', scopes: [], expiry: undefined, addresses: [] }

/**
 * Reads a link such as `?new=power-bi&label=Board+report&address=203.0.113.0/24`, which fills in the form of a new key.
 * `scope` and `expires` replace those of the template. Unknown values are ignored. Undefined without `new`.
 */
export function parsePrefill(search: string): Prefill | undefined {
  const query = new URLSearchParams(search)
  const name = query.get('new')
  if (name === null) return undefined
  const template = isTemplateId(name) ? templates[name] : noPrefill
  const scopes = grantableScopes.filter((scope) => listIn(query, 'scope').includes(scope))
  const label = (query.get('label') ?? '').slice(0, 100)
  return {
    label: keyValuePattern.test(label) ? '' : label,
    scopes: scopes.length > 0 ? scopes : template.scopes,
    expiry: (['30d', '90d', '1y'] as const).find((choice) => choice === query.get('expires')) ?? template.expiry,
    addresses: listIn(query, 'address').slice(0, 100),
  }
}

function listIn(query: URLSearchParams, name: string): string[] {
  return query.getAll(name).flatMap((text) => text.split(',').filter((each) => each !== ''))
}
