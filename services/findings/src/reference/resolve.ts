import type { RequestInfo } from '@postern/service-kit'
import type { Universe } from '../universe/universe.ts'

export interface NamingReferences {
  readonly entity_ids?: readonly string[] | undefined
  readonly test_procedure_id?: string | null | undefined
}

type Request = Pick<RequestInfo, 'context' | 'requestId'>

export function isId(text: string): boolean {
  return !isAddress(text)
}

/** `ref:` or `ext:`. */
export function isAddress(text: string): boolean {
  return text.includes(':')
}

/** Returns a function that replaces `ref:` and `ext:` addresses with ids. Unknown addresses stay. */
export async function createAddressResolver(
  universe: Universe,
  request: Request,
  bodies: readonly NamingReferences[],
): Promise<<B extends NamingReferences>(body: B) => B> {
  const asked = {
    entities: addressesIn(bodies.flatMap(({ entity_ids: ids = [] }) => ids)),
    test_procedures: addressesIn(bodies.flatMap(({ test_procedure_id: id }) => id ?? [])),
  }
  if (asked.entities.length + asked.test_procedures.length === 0) return (body) => body
  const found = await universe.resolve(request, asked)
  const entities = idsBy(asked.entities, found.entities)
  const procedures = idsBy(asked.test_procedures, found.test_procedures)
  return (body) => {
    const { entity_ids: ids, test_procedure_id: id } = body
    return {
      ...body,
      ...(ids === undefined ? {} : { entity_ids: [...new Set(ids.map((each) => entities.get(each) ?? each))] }),
      ...(typeof id === 'string' ? { test_procedure_id: procedures.get(id) ?? id } : {}),
    }
  }
}

/** Returns the ids of the entities that exist. */
export async function entityIdsOf(
  addresses: readonly string[] | undefined,
  request: Request,
  universe: Universe,
): Promise<readonly string[] | undefined> {
  if (addresses === undefined) return undefined
  const resolve = await createAddressResolver(universe, request, [{ entity_ids: addresses }])
  return resolve({ entity_ids: addresses }).entity_ids.filter(isId)
}

function addressesIn(texts: readonly string[]): string[] {
  return [...new Set(texts)].filter(isAddress)
}

function idsBy(addresses: readonly string[], ids: readonly (string | null)[]): ReadonlyMap<string, string> {
  return new Map(
    addresses.flatMap((address, at) => {
      const id = ids[at] ?? null
      return id === null ? [] : [[address, id] as const]
    }),
  )
}
