import type { FindingsSummary } from '@postern/contracts'
import type { IdentifiedPerson } from '@postern/contracts/internal'
import type { RequestInfo } from '@postern/service-kit'
import { isPersonId } from '../person.ts'
import type { Universe } from '../universe/universe.ts'

type Group = FindingsSummary[number]

/** Merges groups that name the same person by id, e-mail address or name. */
export async function mergeOwners(
  groups: FindingsSummary,
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  universe: Universe,
): Promise<FindingsSummary> {
  const texts = groups.flatMap(({ key }) => key ?? [])
  const people = texts.length === 0 ? [] : await universe.identify(request, texts)
  // Ids and addresses identify one person each. A name that too many people have keeps its own group.
  const unique = texts.filter((text) => isPersonId(text) || text.includes('@'))
  const labels = labelsOf(people ?? (unique.length === 0 ? [] : await universe.identify(request, unique)) ?? [])
  const merged = new Map<string | null, Group>()
  for (const group of groups) {
    const key = group.key === null ? null : (labels.get(group.key.toLowerCase()) ?? group.key)
    const before = merged.get(key)
    merged.set(key, before === undefined ? { ...group, key } : sumOf(before, group))
  }
  return [...merged.values()].toSorted((one, other) => other.total - one.total || compareTexts(one.key, other.key))
}

function compareTexts(one: string | null, other: string | null): number {
  return (one ?? '') < (other ?? '') ? -1 : 1
}

/** By id, e-mail address and unique name. */
function labelsOf(people: readonly IdentifiedPerson[]): ReadonlyMap<string, string> {
  return new Map(
    people.flatMap(({ person_id: id, email, name, is_only_one }) => {
      const label = email ?? (is_only_one ? name : id)
      const texts = [id, ...(email === null ? [] : [email]), ...(is_only_one ? [name.toLowerCase()] : [])]
      return texts.map((text) => [text, label] as const)
    }),
  )
}

function sumOf(one: Group, other: Group): Group {
  const { critical, high, medium, low } = other.by_severity
  return {
    key: one.key,
    total: one.total + other.total,
    overdue: one.overdue + other.overdue,
    by_severity: {
      critical: one.by_severity.critical + critical,
      high: one.by_severity.high + high,
      medium: one.by_severity.medium + medium,
      low: one.by_severity.low + low,
    },
  }
}
