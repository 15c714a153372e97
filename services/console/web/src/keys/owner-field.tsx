import type { KeyOwner, OwnerChoice } from '@postern/contracts'
import { type Member, listMembers } from '../api/tenant.ts'
import { TextBox } from '../ui/fields.tsx'
import { Select } from '../ui/select.tsx'
import { useResource } from '../ui/use-resource.ts'

export interface OwnerDraft {
  /** A person's id, or `team`. */
  readonly choice: string
  readonly team: string
  readonly contact: string
}

const teamChoice = 'team'
const personPrefix = 'person:'

export function draftOf(owner: KeyOwner | null): OwnerDraft {
  if (owner?.type === 'team') return { choice: teamChoice, team: owner.name, contact: owner.contact ?? '' }
  return { choice: owner === null ? '' : `${personPrefix}${owner.id ?? ''}`, team: '', contact: '' }
}

/** Undefined if nothing is chosen. */
export function ownerIn({ choice, team, contact }: OwnerDraft): OwnerChoice | undefined {
  if (choice === teamChoice) return { type: 'team', name: team.trim(), contact: contact.trim() }
  return choice.startsWith(personPrefix) ? { type: 'person', id: choice.slice(personPrefix.length) } : undefined
}

export function isSameDraft(one: OwnerDraft, other: OwnerDraft): boolean {
  return one.choice === other.choice && one.team === other.team && one.contact === other.contact
}

const names = new Intl.Collator(undefined, { sensitivity: 'base', numeric: true })

interface Props {
  readonly current: KeyOwner | null
  readonly draft: OwnerDraft
  readonly onDraft: (draft: OwnerDraft) => void
  readonly error: string | undefined
}

export function OwnerField({ current, draft, onDraft, error }: Props) {
  const { resource } = useResource<readonly Member[]>(listMembers)
  const members = resource.state === 'ready' ? resource.value.filter((member) => member.left_at === null) : []
  const people = new Map(members.map(({ id, name }) => [id, name]))
  if (current?.type === 'person' && current.id !== null && !people.has(current.id)) {
    people.set(current.id, current.left_at === null ? current.name : `${current.name} (left)`)
  }
  const choices = [
    ...(draft.choice === '' ? [{ value: '', label: 'Nobody' }] : []),
    ...[...people]
      .toSorted(([, one], [, other]) => names.compare(one, other))
      .map(([id, name]) => ({ value: `${personPrefix}${id}`, label: name })),
    { value: teamChoice, label: 'A team…' },
  ]
  return (
    <>
      <Select
        label="Owner"
        choices={choices}
        value={draft.choice}
        onChange={(choice) => onDraft({ ...draft, choice })}
        help="Who answers for the key. People appear here within a minute of signing in."
      />
      {draft.choice === teamChoice ? (
        <>
          <TextBox
            label="Name of the team"
            value={draft.team}
            onChange={(team) => onDraft({ ...draft, team })}
            maxLength={100}
            error={error}
          />
          <TextBox
            label="E-mail address of the team"
            value={draft.contact}
            onChange={(contact) => onDraft({ ...draft, contact })}
            maxLength={254}
          />
        </>
      ) : undefined}
    </>
  )
}
