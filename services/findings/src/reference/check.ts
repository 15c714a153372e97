import type { EvidenceRef, InputError } from '@postern/contracts'
import type { UnknownReferences } from '@postern/contracts/internal'
import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { invalidContent } from '../request.ts'
import { isAddress, isId } from './resolve.ts'
import { type NamingPeople, personMembers } from '../universe/link-people.ts'

interface ReferenceMembers extends NamingPeople {
  readonly entity_ids?: readonly string[] | undefined
  readonly test_procedure_id?: string | null | undefined
  readonly evidence_refs?: readonly EvidenceRef[] | undefined
}

/** Accepts unknown references that `before` already has. */
export type ReferenceCheck = (body: ReferenceMembers, before?: ReferenceMembers) => void

/** Returns a check that throws a 422 problem. Throws a 503 problem if a service does not answer. */
export async function createReferenceCheck(
  { universe, evidence }: Pick<Deps, 'universe' | 'evidence'>,
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  bodies: readonly ReferenceMembers[],
): Promise<ReferenceCheck> {
  const namedEntities = [...new Set(bodies.flatMap(({ entity_ids: ids = [] }) => ids))]
  const namedProcedures = [...new Set(bodies.flatMap(({ test_procedure_id: id }) => id ?? []))]
  const entityIds = namedEntities.filter(isId)
  const procedureIds = namedProcedures.filter(isId)
  const personIds = [
    ...new Set(bodies.flatMap((body) => personMembers.flatMap((member) => body[member]?.person_id ?? []))),
  ]
  const refs = [...new Map(bodies.flatMap(({ evidence_refs = [] }) => evidence_refs.map((ref) => [keyOf(ref), ref])))]
  const [unknown, unknownRefs] = await Promise.all([
    entityIds.length + procedureIds.length + personIds.length === 0
      ? nothing
      : universe.unknown(request, {
          entity_ids: entityIds,
          test_procedure_ids: procedureIds,
          ...(personIds.length === 0 ? {} : { person_ids: personIds }),
        }),
    refs.length === 0
      ? []
      : evidence.unknown(
          request,
          refs.map(([, ref]) => ref),
        ),
  ])
  const entities = new Set([...unknown.entity_ids, ...namedEntities.filter(isAddress)])
  const procedures = new Set([...unknown.test_procedure_ids, ...namedProcedures.filter(isAddress)])
  const people = new Set(unknown.person_ids)
  const evidenceKeys = new Set(unknownRefs.map(keyOf))

  return (body, before = {}) => {
    const { entity_ids: ids = [], test_procedure_id: procedure, evidence_refs: named = [] } = body
    const kept = new Set(before.entity_ids)
    const faults: InputError[] = [
      ...ids.flatMap((id, index) =>
        entities.has(id) && !kept.has(id)
          ? [
              {
                pointer: `/entity_ids/${index}`,
                code: 'unknown',
                detail: 'must be the id or address of an auditable entity',
              },
            ]
          : [],
      ),
      ...(procedures.has(procedure ?? '') && procedure !== before.test_procedure_id
        ? [{ pointer: '/test_procedure_id', code: 'unknown', detail: 'must be the id or address of a test procedure' }]
        : []),
      ...personMembers.flatMap((member) => {
        const id = body[member]?.person_id ?? ''
        return people.has(id) && id !== before[member]?.person_id
          ? [{ pointer: `/${member}/person_id`, code: 'unknown', detail: 'must be the id of a person' }]
          : []
      }),
      ...named.flatMap((ref, index) =>
        evidenceKeys.has(keyOf(ref))
          ? [
              {
                pointer: `/evidence_refs/${index}`,
                code: 'unknown',
                detail: 'must match an evidence receipt, and the evidence must not be quarantined, rejected or purged',
              },
            ]
          : [],
      ),
    ]
    if (faults.length > 0) throw invalidContent(faults)
  }
}

const nothing: UnknownReferences = { entity_ids: [], test_procedure_ids: [] }

function keyOf({ evidence_id: id, sha256, size }: EvidenceRef): string {
  return `${id} ${sha256} ${size}`
}
