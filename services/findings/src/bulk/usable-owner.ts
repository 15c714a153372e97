import { type BulkResult, type PersonPatch, addressAsName, isEmailAddress } from '@postern/contracts'
import type { BulkItem } from './parse-items.ts'

export type BulkWarnings = NonNullable<BulkResult['warnings']>

interface OwnedItem {
  readonly owner?: PersonPatch | null | undefined
}

/** If an owner has no other member, the address becomes the name. */
export function withUsableOwners<Item extends OwnedItem>(
  sent: readonly BulkItem<Item>[],
): { readonly items: readonly BulkItem<Item>[]; readonly warnings: ReadonlyMap<number, BulkWarnings> } {
  const warnings = new Map<number, BulkWarnings>()
  const items = sent.map((own, index): BulkItem<Item> => {
    const email = own.ok ? own.item.owner?.email : undefined
    if (!own.ok || typeof email !== 'string' || isEmailAddress(email)) return own
    const { owner, change } = cleanOwner({ ...own.item.owner, email })
    if (change !== undefined) {
      const detail = `is not an e-mail address (RFC 5321, RFC 6531) and ${change}`
      warnings.set(index, [{ pointer: `/items/${index}/owner/email`, code: 'unusable_address', detail }])
    }
    return { ok: true, item: { ...own.item, owner } }
  })
  return { items, warnings }
}

/** Returns null, so that a stored address does not stay beside a new name. */
function cleanOwner({ email, ...named }: PersonPatch & { readonly email: string }): {
  readonly owner: PersonPatch | undefined
  readonly change?: string
} {
  const address = email.trim()
  if (isEmailAddress(address)) return { owner: { ...named, email: address } }
  if (typeof named.name === 'string' || typeof named.person_id === 'string')
    return { owner: { ...named, email: null }, change: 'was left out' }
  const name = addressAsName(address)
  return name === undefined
    ? { owner: undefined, change: 'was left out' }
    : { owner: { ...named, email: null, name }, change: 'became the name' }
}
