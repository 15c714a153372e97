import type { BulkPreview, BulkReceipt, ChangeKeys } from '@postern/contracts'
import { useCallback, useState } from 'react'
import { changeKeys, previewBulk } from '../api/keys.ts'
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
import { When } from '../ui/when.tsx'
import { StateBadge } from './key-parts.tsx'
import { OwnerField, draftOf, ownerIn } from './owner-field.tsx'

interface Props {
  readonly ids: readonly string[]
  readonly onClose: () => void
  /** Called when keys may have changed. */
  readonly onChanged: () => void
}

/** Shows a preview of the selected keys, changes all of them, and shows the receipt. */
export function BulkDialog({ ids, onClose, onChanged }: Props) {
  const load = useCallback(async (signal: AbortSignal) => await previewBulk(ids, signal), [ids])
  const { resource, reload } = useResource<BulkPreview>(load)
  if (resource.state === 'ready') {
    const { value } = resource
    return <BulkForm key={value.version} preview={value} onClose={onClose} onChanged={onChanged} onOutdated={reload} />
  }
  return (
    <Dialog
      title="Change several keys"
      isOpen
      size="large"
      onClose={onClose}
      footer={<Button onPress={onClose}>Cancel</Button>}
    >
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The keys cannot be read" onRetry={reload} />
      ) : (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="60%" />
          <Skeleton width="80%" />
        </div>
      )}
    </Dialog>
  )
}

type Action = ChangeKeys['action']

const actions: readonly { readonly value: Action; readonly label: string }[] = [
  { value: 'revoke', label: 'Revoke' },
  { value: 'shorten', label: 'Shorten the expiry' },
  { value: 'reassign', label: 'Change the owner' },
  { value: 'relabel', label: 'Change the label' },
]

const submits: Readonly<Record<Action, string>> = {
  revoke: 'Revoke',
  shorten: 'Shorten',
  reassign: 'Reassign',
  relabel: 'Relabel',
}

const dayMs = 86_400_000
const ends = [1, 7, 30, 90].map((days) => ({
  value: String(days),
  label: days === 1 ? 'In one day' : `In ${days} days`,
}))

interface FormProps extends Omit<Props, 'ids'> {
  readonly preview: BulkPreview
  readonly onOutdated: () => void
}

function BulkForm({ preview, onClose, onChanged, onOutdated }: FormProps) {
  const { keys, active, used_last_day: used } = preview
  const [action, setAction] = useState<Action>('revoke')
  const [reason, setReason] = useState('')
  const [days, setDays] = useState('7')
  const [owner, setOwner] = useState(() => draftOf(null))
  const [label, setLabel] = useState('')
  const [fault, setFault] = useState<string>()
  const [receipt, setReceipt] = useState<BulkReceipt>()
  const change = useChange()
  const { isBusy, failure } = change
  const isOutdated = failure instanceof ApiProblem && failure.problem.status === 412

  const submit = async () => {
    const chosen = ownerIn(owner)
    const isTeamIncomplete = chosen?.type === 'team' && (chosen.name === '' || chosen.contact === '')
    const missing =
      action === 'reassign' && (chosen === undefined || isTeamIncomplete)
        ? 'Choose a person, or name a team and its e-mail address.'
        : action === 'relabel' && label.trim() === ''
          ? 'Name the program that uses the keys.'
          : undefined
    setFault(missing)
    if (missing !== undefined) return
    await change.run(async (signal) => {
      const body = {
        action,
        ...(action === 'revoke' && reason.trim() !== '' ? { reason: reason.trim() } : {}),
        ...(action === 'shorten' ? { expires_at: new Date(Date.now() + Number(days) * dayMs).toISOString() } : {}),
        ...(action === 'reassign' && chosen !== undefined ? { owner: chosen } : {}),
        ...(action === 'relabel' ? { label: label.trim() } : {}),
      }
      const answer = await changeKeys(preview, body, signal)
      onChanged()
      setReceipt(answer)
    })
  }

  if (receipt !== undefined) return <Receipt receipt={receipt} onClose={onClose} />
  return (
    <Dialog
      title={`Change ${countOf(keys.length)}`}
      isOpen
      size="large"
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <SaveFooter
          isBusy={isBusy}
          onCancel={onClose}
          onSave={() => void submit()}
          outdated={isOutdated ? { label: 'Show the current keys', onShow: onOutdated } : undefined}
          save={isBusy ? 'Waiting for all gateways…' : `${submits[action]} ${countOf(keys.length)}`}
          look={action === 'revoke' ? 'danger' : 'primary'}
        />
      }
    >
      {failure === undefined ? undefined : isOutdated ? (
        <Notice tone="warning" title="One of the keys has changed" isNews>
          No key was changed.
        </Notice>
      ) : (
        <Failure
          error={failure}
          title="No key was changed"
          unsure="It is not known whether every gateway enforces the change. Try again; that is safe"
        />
      )}
      <Overdue change={change} mayBe="The keys may already be changed, but not every gateway has confirmed it." />
      <Notice
        tone={used > 0 ? 'warning' : 'info'}
        title={used === 0 ? 'No key was used in the last 24 hours' : `${used} of them were used in the last 24 hours`}
      >
        {active} of {countOf(keys.length)} are active.
      </Notice>
      <Select
        label="Change"
        choices={actions}
        value={action}
        onChange={(chosen) => {
          setAction(chosen)
          setFault(undefined)
        }}
      />
      {action === 'revoke' ? (
        <TextBox
          label="Reason"
          isOptional
          value={reason}
          onChange={setReason}
          maxLength={500}
          placeholder="Left the company"
          help="Stored in the audit trail. Revoking cannot be undone."
        />
      ) : undefined}
      {action === 'shorten' ? (
        <Select
          label="Expiration"
          choices={ends}
          value={days}
          onChange={setDays}
          help="Keys that expire earlier do not change."
        />
      ) : undefined}
      {action === 'reassign' ? <OwnerField current={null} draft={owner} onDraft={setOwner} error={fault} /> : undefined}
      {action === 'reassign' && fault !== undefined && ownerIn(owner)?.type !== 'team' ? (
        <p className="field-error">{fault}</p>
      ) : undefined}
      {action === 'relabel' ? (
        <TextBox label="Label" value={label} onChange={setLabel} maxLength={100} error={fault} />
      ) : undefined}
      <table className="plain-table">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Owner</th>
            <th scope="col">State</th>
            <th scope="col">Used in the last 24 hours</th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.id}>
              <th scope="row">
                {key.label}
                <span className="second-line">{key.masked}</span>
              </th>
              <td data-title="Owner">{key.owner?.name ?? <span className="faint">Nobody</span>}</td>
              <td data-title="State">
                <StateBadge state={key.state} />
              </td>
              <td data-title="Used in the last 24 hours">
                {key.used_last_day ? key.recent_addresses.join(', ') || 'Yes' : <span className="faint">No</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  )
}

function Receipt({ receipt, onClose }: { readonly receipt: BulkReceipt; readonly onClose: () => void }) {
  const { changed, keys, enforcement } = receipt
  return (
    <Dialog
      title="Receipt"
      isOpen
      size="large"
      onClose={onClose}
      footer={
        <Button look="primary" onPress={onClose} autoFocus>
          Close
        </Button>
      }
    >
      <Notice tone="success" title={`${countOf(changed)} changed`} isNews>
        {enforcement === null
          ? `Receipt ${receipt.id}.`
          : `Enforced on all gateways: ${enforcement.confirmed} confirmed, ${enforcement.fenced} fenced. Receipt ${receipt.id}.`}
      </Notice>
      <table className="plain-table">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">State</th>
            <th scope="col">Result</th>
            <th scope="col">Enforced</th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.id}>
              <th scope="row">
                {key.label}
                <span className="second-line">{key.masked}</span>
              </th>
              <td data-title="State">
                <StateBadge state={key.state} />
              </td>
              <td data-title="Result">{key.changed ? 'Changed' : 'As before'}</td>
              <td data-title="Enforced">
                {key.enforced_at === null ? (
                  <span className="faint">Not needed</span>
                ) : (
                  <When at={key.enforced_at} as="time" />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  )
}

function countOf(keys: number): string {
  return keys === 1 ? 'one key' : `${keys} keys`
}
