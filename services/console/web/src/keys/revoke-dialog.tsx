import { useEffect, useState } from 'react'
import { type ApiKey, type RevokedKey, getKey, revokeKey } from '../api/keys.ts'
import { ApiProblem } from '../api/request.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'
import { useNow } from '../ui/use-now.ts'
import { ScopeList } from './key-parts.tsx'
import { LastUse } from './key-parts.tsx'

interface Props {
  readonly apiKey: ApiKey
  readonly onClose: () => void
  readonly onRevoked: (key: ApiKey) => void
}

export function RevokeDialog({ apiKey, onClose, onRevoked }: Props) {
  const [reason, setReason] = useState('')
  const change = useChange()
  const { isBusy, failure } = change
  const [revoked, setRevoked] = useState<RevokedKey>()
  const now = useNow()
  const [latest, setLatest] = useState(apiKey)

  useEffect(() => {
    const reading = new AbortController()
    getKey(apiKey.id, reading.signal).then(setLatest, () => undefined)
    return () => reading.abort()
  }, [apiKey.id])

  const revoke = async () => {
    await change.run(async (signal) => {
      const answer = await revokeKey(apiKey.id, reason.trim(), signal)
      const { enforcement: _enforcement, ...key } = answer
      onRevoked(key)
      setRevoked(answer)
    })
  }

  if (revoked !== undefined) {
    return (
      <Dialog
        title="Key revoked"
        isOpen
        onClose={onClose}
        footer={
          <Button look="primary" onPress={onClose} autoFocus>
            Close
          </Button>
        }
      >
        <Enforced revoked={revoked} />
      </Dialog>
    )
  }
  const isUnconfirmed = failure instanceof ApiProblem && failure.problem.code === 'revocation_unconfirmed'
  return (
    <Dialog
      title="Revoke this key?"
      isOpen
      isQuestion
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <>
          <Button onPress={onClose} isDisabled={isBusy} autoFocus>
            Keep the key
          </Button>
          <Button
            look="danger"
            isBusy={isBusy}
            onPress={() => {
              void revoke()
            }}
          >
            {isBusy ? 'Waiting for all gateways…' : isUnconfirmed ? 'Try again' : 'Revoke key'}
          </Button>
        </>
      }
    >
      {failure === undefined ? undefined : (
        <Failure
          error={failure}
          title="The key was not revoked"
          unsure={isUnconfirmed ? 'Not yet confirmed by all gateways' : 'It is not known whether the key is revoked'}
        />
      )}
      <Overdue
        change={change}
        mayBe="The key may already be revoked, but not every gateway has confirmed it."
        advice="Try again to ask the gateways once more."
      />
      <div className="key-summary">
        <div className="key-summary-head">
          <strong>{apiKey.label}</strong>
          <code className="masked">{apiKey.masked}</code>
        </div>
        <dl className="facts">
          <div>
            <dt>Last used</dt>
            <dd>
              <LastUse apiKey={latest} now={now} />
            </dd>
          </div>
          <div>
            <dt>Scopes</dt>
            <dd>
              <ScopeList scopes={apiKey.scopes} />
            </dd>
          </div>
        </dl>
      </div>
      <p>
        Every program that uses the key is rejected. <strong>This cannot be undone.</strong>
      </p>
      <TextBox
        label="Reason"
        isOptional
        value={reason}
        onChange={setReason}
        maxLength={500}
        placeholder="Leaked in a build log"
        help="Stored in the audit trail."
      />
    </Dialog>
  )
}

function Enforced({ revoked }: { readonly revoked: RevokedKey }) {
  const { enforcement, label, masked } = revoked
  const name = (
    <>
      <strong>{label}</strong> <code className="masked">{masked}</code>
    </>
  )
  if (enforcement === null) {
    return (
      <Notice tone="success" title="Revoked" isNews>
        {name} is revoked.
      </Notice>
    )
  }
  const { gateways, confirmed, fenced, waited_ms: waited } = enforcement
  return (
    <>
      <Notice tone="success" title={`Enforced on all gateways in ${duration(waited)}`} isNews>
        {name} is refused everywhere from now on.
      </Notice>
      <p className="help">
        {gateways === 0
          ? 'No gateway could have accepted it.'
          : `${count(confirmed, 'gateway')} confirmed that ${confirmed === 1 ? 'it rejects' : 'they reject'} the key.`}
        {fenced === 0
          ? ''
          : ` ${count(fenced, 'gateway')} did not answer and ${fenced === 1 ? 'rejects' : 'reject'} every request until caught up.`}
      </p>
    </>
  )
}

function count(number: number, noun: string): string {
  return number === 1 ? `1 ${noun}` : `${number} ${noun}s`
}

function duration(ms: number): string {
  if (ms < 1) return 'less than 1 ms'
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
}
