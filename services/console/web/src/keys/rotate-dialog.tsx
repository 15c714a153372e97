import { useEffect, useState } from 'react'
import { createAttempt } from '../api/attempt.ts'
import { type ApiKey, type CreatedApiKey, type GrantableScope, rotateKey } from '../api/keys.ts'
import { confirmLeaving } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { Select } from '../ui/select.tsx'
import { useChange } from '../ui/use-change.ts'
import { When } from '../ui/when.tsx'
import { isAllowed } from './expiry.ts'
import { KeyReveal } from './key-reveal.tsx'
import { CreationFailure } from './creation-failure.tsx'
import { useKeyPolicy } from './use-key-policy.ts'

interface Props {
  readonly apiKey: ApiKey
  /** Fewer than those of the key. */
  readonly scopes?: readonly GrantableScope[] | undefined
  readonly onClose: () => void
  readonly onRotated: (successor: ApiKey) => void
}

const overlaps = [
  { value: '0s', label: 'None: the old key stops at once', ms: 0 },
  { value: '1h', label: '1 hour', ms: 3_600_000 },
  { value: '24h', label: '24 hours', ms: 86_400_000 },
  { value: '3d', label: '3 days', ms: 3 * 86_400_000 },
  { value: '7d', label: '7 days', ms: 7 * 86_400_000 },
] as const

const starts = [
  { value: 'rotation', label: 'Now' },
  { value: 'first_use', label: 'With the first use of the new key' },
] as const

const lives = [
  { value: 'same', label: 'The original lifetime of the old key' },
  { value: '30d', label: '30 days' },
  { value: '90d', label: '90 days' },
  { value: '1y', label: '1 year' },
] as const

export function RotateDialog({ apiKey, scopes, onClose, onRotated }: Props) {
  const [overlap, setOverlap] = useState<(typeof overlaps)[number]['value']>('24h')
  const [start, setStart] = useState<(typeof starts)[number]['value']>('rotation')
  const [life, setLife] = useState<(typeof lives)[number]['value']>('same')
  const change = useChange()
  const { isBusy, failure } = change
  const [made, setMade] = useState<{ readonly created: CreatedApiKey; readonly oldEnd: string }>()
  const { maxDays } = useKeyPolicy()
  const [attempt] = useState(createAttempt)

  useEffect(() => (isBusy ? confirmLeaving(() => undefined) : undefined), [isBusy])

  const rotate = async () => {
    await change.run(async (signal) => {
      const body = {
        overlap,
        ...(start === 'rotation' ? {} : { overlap_from: start }),
        ...(life === 'same' ? {} : { expires_in: life }),
        ...(scopes === undefined ? {} : { scopes }),
      }
      const created = await attempt.carryOut(body, async (id) => await rotateKey(apiKey.id, body, id, signal))
      const overlapMs = overlaps.find(({ value }) => value === overlap)?.ms ?? 0
      const end = Math.min(Date.parse(apiKey.expires_at), Date.parse(created.created_at) + overlapMs)
      const { key: _value, ...successor } = created
      onRotated(successor)
      setMade({ created, oldEnd: new Date(end).toISOString() })
    })
  }

  if (made !== undefined) {
    return (
      <KeyReveal title={`The new key of ${apiKey.label}`} value={made.created.key} onDone={onClose}>
        <dl className="facts facts-row">
          <div>
            <dt>Old key {apiKey.masked}</dt>
            <dd>
              {start === 'first_use' ? (
                <>
                  Works until the new key is used
                  {overlap === '0s' ? '' : `, and ${overlap} longer`}, at most until <When at={apiKey.expires_at} />
                </>
              ) : overlap === '0s' ? (
                'No longer works'
              ) : (
                <>
                  Works until <When at={made.oldEnd} />
                </>
              )}
            </dd>
          </div>
          <div>
            <dt>New key expires</dt>
            <dd>
              <When at={made.created.expires_at} />
            </dd>
          </div>
        </dl>
      </KeyReveal>
    )
  }
  return (
    <Dialog
      title={`Rotate ${apiKey.label}`}
      isOpen
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <>
          <Button onPress={onClose} isDisabled={isBusy}>
            Cancel
          </Button>
          <Button
            look="primary"
            isBusy={isBusy}
            onPress={() => {
              void rotate()
            }}
          >
            Generate new key
          </Button>
        </>
      }
    >
      {failure === undefined ? undefined : (
        <CreationFailure
          error={failure}
          title="The key was not rotated"
          unsure="It is not known whether the key was rotated"
          onLeave={onClose}
        />
      )}
      <Overdue
        change={change}
        mayBe="The new key may already have been created."
        advice="You can try again without creating a second key. If you close this window, look for the new key in the list."
      />
      <p>
        You get a new key with the same label{scopes === undefined ? ', scopes' : ''} and addresses
        {scopes === undefined ? '' : `, and only ${scopes.join(', ')}`}. Both keys work during the overlap, so that the
        program can switch without an interruption.
      </p>
      <Select label="The old key works for" choices={overlaps} value={overlap} onChange={setOverlap} />
      <Select label="The overlap begins" choices={starts} value={start} onChange={setStart} />
      <Select
        label="The new key works for"
        choices={lives.filter(({ value }) => value === 'same' || isAllowed(value, maxDays))}
        value={life}
        onChange={setLife}
      />
    </Dialog>
  )
}
