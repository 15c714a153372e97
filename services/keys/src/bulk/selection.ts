import { createHash } from 'node:crypto'
import type { InputError } from '@postern/contracts'
import type { StoredKey } from '../api-key/stored-key.ts'

const versionLength = 32

/** Returns a digest of the keys and their versions, in any order. */
export function bulkVersion(keys: readonly Pick<StoredKey, 'id' | 'version'>[]): string {
  const list = keys.map(({ id, version }) => `${id}.${version}`).toSorted()
  return createHash('sha256').update(list.join('\n')).digest('hex').slice(0, versionLength)
}

export function findUnknownIds(ids: readonly string[], keys: readonly Pick<StoredKey, 'id'>[]): InputError[] {
  const known = new Set(keys.map(({ id }) => id))
  return ids.flatMap((id, place): InputError[] =>
    known.has(id)
      ? []
      : [{ pointer: `/ids/${place}`, code: 'unknown_key', detail: 'must be the id of a key of this tenant' }],
  )
}

export function findRevokedIds(
  ids: readonly string[],
  keys: readonly Pick<StoredKey, 'id' | 'revoked'>[],
): InputError[] {
  const revoked = new Set(keys.flatMap(({ id, revoked: by }) => (by === null ? [] : [id])))
  return ids.flatMap((id, place): InputError[] =>
    revoked.has(id) ? [{ pointer: `/ids/${place}`, code: 'revoked', detail: 'is revoked and cannot be changed' }] : [],
  )
}
