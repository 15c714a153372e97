import { useState } from 'react'
import { auditRetention, mostKeyDays } from '@postern/contracts'
import { type TaggedPolicy, changeKeyPolicy } from '../api/tenant.ts'
import { ApiProblem } from '../api/request.ts'
import { addressesIn, faultIn } from '../keys/addresses.ts'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'
import { SaveFooter } from '../ui/save-footer.tsx'
import { Select } from '../ui/select.tsx'
import { daysInWords } from './words.ts'

interface Props {
  readonly current: TaggedPolicy
  readonly onClose: () => void
  readonly onChanged: (policy: TaggedPolicy) => void
  readonly onOutdated: () => void
}

const lives: readonly number[] = [7, 30, 90, 180, 365, 730, mostKeyDays]

export function PolicyDialog({ current, onClose, onChanged, onOutdated }: Props) {
  const { policy, etag } = current
  const [days, setDays] = useState(String(policy.max_key_days))
  const [networks, setNetworks] = useState(policy.required_addresses.join('\n'))
  const [rotation, setRotation] = useState(String(policy.rotation_days))
  const [most, setMost] = useState(policy.most_keys === null ? '' : String(policy.most_keys))
  const [idle, setIdle] = useState(policy.revoke_idle_days === null ? '' : String(policy.revoke_idle_days))
  const [retention, setRetention] = useState(String(policy.audit_retention_days))
  const [wildcards, setWildcards] = useState(policy.forbid_wildcards ? 'no' : 'yes')
  const [owner, setOwner] = useState(policy.require_owner ? 'yes' : 'no')
  const [badNumber, setBadNumber] = useState<'rotation' | 'most' | 'idle' | 'retention'>()
  const change = useChange()
  const { isBusy, failure } = change
  const choices = [...new Set([...lives, policy.max_key_days])]
    .toSorted((one, other) => one - other)
    .map((life) => ({ value: String(life), label: daysInWords(life) }))
  const required = addressesIn(networks)
  const [fault, setFault] = useState<string>()
  const isOutdated = failure instanceof ApiProblem && failure.problem.status === 412

  const save = async () => {
    const found = faultIn(required)
    setFault(found)
    const bad = faultyNumber({ rotation, most, idle, retention })
    setBadNumber(bad)
    change.setFailure(undefined)
    if (found !== undefined || bad !== undefined) return
    const rules = {
      max_key_days: Number(days),
      required_addresses: required,
      rotation_days: Number(rotation),
      most_keys: most === '' ? null : Number(most),
      revoke_idle_days: idle === '' ? null : Number(idle),
      audit_retention_days: Number(retention),
      forbid_wildcards: wildcards === 'no',
      require_owner: owner === 'yes',
    }
    await change.run(async (signal) => {
      onChanged(await changeKeyPolicy(rules, etag, signal))
      onClose()
    })
  }

  return (
    <Dialog
      title="Change key policy"
      isOpen
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <SaveFooter
          isBusy={isBusy}
          onCancel={onClose}
          onSave={() => void save()}
          outdated={isOutdated ? { label: 'Show the current policy', onShow: onOutdated } : undefined}
        />
      }
    >
      {failure === undefined ? undefined : isOutdated ? (
        <Notice tone="warning" title="Somebody else has changed the policy" isNews>
          Your changes were not saved.
        </Notice>
      ) : (
        <Failure
          error={failure}
          title="The policy was not changed"
          unsure="It is not known whether the policy was changed"
        />
      )}
      <Overdue change={change} mayBe="The policy may already have been changed." />
      <Select label="Maximum lifetime of a key" choices={choices} value={days} onChange={setDays} />
      <TextBox
        label="Required networks"
        isOptional
        value={networks}
        onChange={(text) => {
          setNetworks(text)
          setFault(undefined)
        }}
        error={fault}
        rows={4}
        placeholder={'203.0.113.0/24\n2001:db8::/32'}
        help="One per line. Every new key must then list addresses within these networks. If empty, keys can be used from anywhere."
      />
      <TextBox
        label="Rotation age (days)"
        isNumber
        value={rotation}
        onChange={setRotation}
        error={badNumber === 'rotation' ? `Enter a whole number from 1 to ${mostKeyDays}.` : undefined}
        help="Older keys are due for rotation. They continue to work."
      />
      <TextBox
        label="Maximum number of active keys"
        isOptional
        isNumber
        value={most}
        onChange={setMost}
        error={badNumber === 'most' ? 'Enter a whole number from 1 to 1,000,000, or leave it empty.' : undefined}
        help="If empty, there is no limit. Rotated keys do not count."
      />
      <TextBox
        label="Revoke idle keys after (days)"
        isOptional
        isNumber
        value={idle}
        onChange={setIdle}
        error={badNumber === 'idle' ? `Enter a whole number from 2 to ${mostKeyDays}, or leave it empty.` : undefined}
        help="If empty, never. The days count from now. Webhooks receive key.expiring first."
      />
      <Select label="Wildcard scopes" choices={wildcardChoices} value={wildcards} onChange={setWildcards} />
      <Select label="Owner" choices={ownerChoices} value={owner} onChange={setOwner} />
      <TextBox
        label="Keep audit events for (days)"
        isNumber
        value={retention}
        onChange={setRetention}
        error={badNumber === 'retention' ? `Enter a whole number ${retentionRange}.` : undefined}
        help="Older events are permanently deleted soon after you save."
      />
      <p className="help">Existing keys continue to work, unless they are idle. New and rotated keys must comply.</p>
    </Dialog>
  )
}

const wildcardChoices = [
  { value: 'yes', label: 'Allowed' },
  { value: 'no', label: 'Forbidden' },
]

const ownerChoices = [
  { value: 'no', label: 'Optional' },
  { value: 'yes', label: 'Required' },
]

const retentionRange = `from ${auditRetention.min} to ${auditRetention.max.toLocaleString()}`

type Numbers = Readonly<Record<'rotation' | 'most' | 'idle' | 'retention', string>>

function faultyNumber({ rotation, most, idle, retention }: Numbers) {
  if (!isCount(rotation, mostKeyDays)) return 'rotation'
  if (most !== '' && !isCount(most, 1_000_000)) return 'most'
  if (idle !== '' && (idle === '1' || !isCount(idle, mostKeyDays))) return 'idle'
  return isCount(retention, auditRetention.max) && Number(retention) >= auditRetention.min ? undefined : 'retention'
}

function isCount(text: string, most: number): boolean {
  return /^[1-9][0-9]{0,6}$/.test(text) && Number(text) <= most
}
