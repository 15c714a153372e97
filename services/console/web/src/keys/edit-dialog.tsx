import { useCallback, useState } from 'react'
import { type GrantableScope, grantableScopes, scopesWith } from '@postern/contracts'
import { type ApiKey, type KeyChange, type TaggedKey, changeKey, readTaggedKey } from '../api/keys.ts'
import { ApiProblem } from '../api/request.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { SaveFooter } from '../ui/save-footer.tsx'
import { Select } from '../ui/select.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { useResource } from '../ui/use-resource.ts'
import { dayOf } from '../ui/when.tsx'
import { addressesIn, faultIn } from './addresses.ts'
import { OwnerField, draftOf, isSameDraft, ownerIn } from './owner-field.tsx'
import { ScopeCards } from './scope-cards.tsx'

interface Props {
  readonly apiKey: ApiKey
  /** To start with instead of those of the key. */
  readonly addresses?: readonly string[] | undefined
  readonly onClose: () => void
  readonly onChanged: (key: ApiKey) => void
}

export function EditDialog({ apiKey, addresses, onClose, onChanged }: Props) {
  const load = useCallback(async (signal: AbortSignal) => await readTaggedKey(apiKey.id, signal), [apiKey.id])
  const { resource, reload } = useResource<TaggedKey>(load)
  if (resource.state === 'ready') {
    const { value } = resource
    return (
      <EditForm
        key={value.etag}
        current={value}
        addresses={addresses}
        onClose={onClose}
        onOutdated={reload}
        onChanged={(key) => {
          onChanged(key)
          onClose()
        }}
      />
    )
  }
  return (
    <Dialog title="Edit key" isOpen size="large" onClose={onClose} footer={<Button onPress={onClose}>Cancel</Button>}>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The key cannot be read" onRetry={reload} />
      ) : (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="60%" />
          <Skeleton width="80%" />
        </div>
      )}
    </Dialog>
  )
}

interface FormProps extends Omit<Props, 'apiKey'> {
  readonly current: TaggedKey
  readonly onOutdated: () => void
}

function EditForm({ current, addresses: suggested, onClose, onChanged, onOutdated }: FormProps) {
  const { key } = current
  const [label, setLabel] = useState(key.label)
  const [note, setNote] = useState(key.note ?? '')
  const [owner, setOwner] = useState(() => draftOf(key.owner))
  const [scopes, setScopes] = useState<readonly GrantableScope[]>(key.scopes)
  const [addresses, setAddresses] = useState((suggested ?? key.allowed_addresses).join('\n'))
  const [ends, setEnds] = useState(keepEnd)
  const [faults, setFaults] = useState<Faults>({})
  const [now] = useState(() => Date.now())
  const change = useChange()
  const { isBusy, failure } = change
  const isOutdated = failure instanceof ApiProblem && failure.problem.status === 412

  const save = async () => {
    const wanted = addressesIn(addresses)
    const found: Faults = {
      ...(label.trim() === '' ? { label: 'Name the program that uses the key.' } : {}),
      ...(scopes.length === 0 ? { scopes: 'Keep at least one scope. To end the key, revoke it.' } : {}),
      ...(ownerIn(owner)?.type === 'team' && (owner.team.trim() === '' || owner.contact.trim() === '')
        ? { owner: 'Name the team and its e-mail address.' }
        : {}),
      addresses: faultIn(wanted),
    }
    setFaults(found)
    change.setFailure(undefined)
    if (Object.values(found).some((fault) => fault !== undefined)) return
    const chosen = ownerIn(owner)
    const body: KeyChange = {
      ...(label.trim() === key.label ? {} : { label: label.trim() }),
      ...(note.trim() === (key.note ?? '') ? {} : { note: note.trim() === '' ? null : note.trim() }),
      ...(isSameDraft(owner, draftOf(key.owner)) || chosen === undefined ? {} : { owner: chosen }),
      ...(scopes.join(' ') === key.scopes.join(' ') ? {} : { scopes }),
      ...(wanted.join(' ') === key.allowed_addresses.join(' ') ? {} : { allowed_addresses: wanted }),
      ...(ends === keepEnd ? {} : { expires_at: new Date(now + Number(ends) * dayMs).toISOString() }),
    }
    if (Object.keys(body).length === 0) {
      onClose()
      return
    }
    await change.run(async (signal) => onChanged(await changeKey(current, body, signal)))
  }

  return (
    <Dialog
      title="Edit key"
      isOpen
      size="large"
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <SaveFooter
          isBusy={isBusy}
          onCancel={onClose}
          onSave={() => void save()}
          outdated={isOutdated ? { label: 'Show the current key', onShow: onOutdated } : undefined}
        />
      }
    >
      {failure === undefined ? undefined : isOutdated ? (
        <Notice tone="warning" title="Somebody else has changed the key" isNews>
          Your changes were not saved.
        </Notice>
      ) : (
        <Failure
          error={failure}
          title="The key was not changed"
          unsure="It is not known whether every gateway uses the changed key"
        />
      )}
      <Overdue change={change} mayBe="The key may already be changed, but not every gateway has confirmed it." />
      <TextBox label="Label" value={label} onChange={setLabel} maxLength={100} error={faults.label} />
      <TextBox
        label="Note"
        isOptional
        value={note}
        onChange={setNote}
        maxLength={1000}
        rows={3}
        placeholder="Where it runs, who renews it, what depends on it"
      />
      <OwnerField current={key.owner} draft={owner} onDraft={setOwner} error={faults.owner} />
      <Notice tone="info" title="Access can only become narrower">
        To renew the key, rotate it. If its program needs more scopes or addresses, generate another key.
      </Notice>
      <ScopeCards value={scopes} onChange={setScopes} error={faults.scopes} offered={narrowerScopes(key.scopes)} />
      <TextBox
        label="Allowed addresses"
        isOptional
        value={addresses}
        onChange={setAddresses}
        error={faults.addresses}
        rows={3}
        placeholder={'203.0.113.0/24\n2001:db8::/32'}
        help={
          key.allowed_addresses.length === 0
            ? 'One per line. The key works from anywhere now; a list can only become shorter later.'
            : 'One per line. Each must lie within the current list.'
        }
      />
      <Select
        label="Expiration"
        choices={[
          { value: keepEnd, label: `Keep ${dayOf(key.expires_at)}` },
          ...earlierDays
            .filter((days) => now + days * dayMs < Date.parse(key.expires_at))
            .map((days) => ({ value: String(days), label: days === 1 ? 'In one day' : `In ${days} days` })),
        ]}
        value={ends}
        onChange={setEnds}
      />
    </Dialog>
  )
}

interface Faults {
  readonly label?: string | undefined
  readonly scopes?: string | undefined
  readonly owner?: string | undefined
  readonly addresses?: string | undefined
}

const keepEnd = 'keep'
const earlierDays = [1, 7, 30, 90, 180] as const
const dayMs = 86_400_000

/** The scopes of a key, and those that its wildcards include. */
function narrowerScopes(scopes: readonly GrantableScope[]): readonly GrantableScope[] {
  return grantableScopes.filter((scope) => scopesWith(scope).some((wider) => scopes.includes(wider)))
}
