import type { CreatedBy, ResourceAddress } from '@postern/contracts'

interface CreatedColumns {
  readonly created_by_type: CreatedBy['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly updated_at: Date
}

/** The row of a resource: its creator is in three columns, and its times are dates. */
export type ResourceRow<Resource> = Omit<Resource, 'created_by' | 'created_at' | 'updated_at'> & CreatedColumns

/** Returns the row with the creator and times of the resource. */
export function toResource<Row extends CreatedColumns>(row: Row) {
  const { created_by_type: type, created_by_id: id, created_by_label: label, created_at, updated_at, ...same } = row
  return {
    ...same,
    created_by: { type, id, label },
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}

/** Returns an id, a reference and an external id, two of which are null. */
export function addressValues(address: ResourceAddress): readonly [string | null, string | null, string | null] {
  return [
    address.by === 'id' ? address.id : null,
    address.by === 'reference' ? address.reference : null,
    address.by === 'external-id' ? address.externalId : null,
  ]
}

/** Returns the ids, the references and the external ids among the addresses. */
export function addressLists(
  addresses: readonly ResourceAddress[],
): readonly [readonly string[], readonly string[], readonly string[]] {
  return [
    addresses.flatMap((address) => (address.by === 'id' ? [address.id] : [])),
    addresses.flatMap((address) => (address.by === 'reference' ? [address.reference] : [])),
    addresses.flatMap((address) => (address.by === 'external-id' ? [address.externalId] : [])),
  ]
}
