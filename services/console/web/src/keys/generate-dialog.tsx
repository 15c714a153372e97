import type { CalendarDate } from '@internationalized/date'
import { type FormEvent, useEffect, useId, useState } from 'react'
import { Button as AriaButton } from 'react-aria-components/Button'
import { Disclosure, DisclosurePanel } from 'react-aria-components/Disclosure'
import type { Attempt } from '../api/attempt.ts'
import { type ApiKey, type CreatedApiKey, type Expiry, type GrantableScope, createKey } from '../api/keys.ts'
import { stayHere } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Icon } from '../ui/icon.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'
import { When } from '../ui/when.tsx'
import { addressesIn, faultIn } from './addresses.ts'
import { ExpiryField } from './expiry-field.tsx'
import { endOfDay, faultInDay, usualExpiry } from './expiry.ts'
import { ScopeList } from './key-parts.tsx'
import { KeyReveal } from './key-reveal.tsx'
import { MakingFailure } from './making-failure.tsx'
import { ScopeCards } from './scope-cards.tsx'
import type { KeyRules } from './use-key-policy.ts'

interface Props {
  /** What the tenant demands of the key. */
  readonly policy: KeyRules
  /** Outlives the dialog: a request without an answer is the same request when the dialog is opened again. */
  readonly attempt: Attempt
  readonly onClose: () => void
  readonly onMade: (key: ApiKey) => void
}

interface Faults {
  readonly label?: string | undefined
  readonly day?: string | undefined
  readonly scopes?: string | undefined
  readonly addresses?: string | undefined
}

/** Makes a key: asks what it is for, how long it lives and what it may do; then shows it, once. */
export function GenerateDialog({ policy, attempt, onClose, onMade }: Props) {
  const form = useId()
  const [label, setLabel] = useState('')
  const [expiry, setExpiry] = useState<Expiry>(() => usualExpiry(policy.maxDays))
  const [day, setDay] = useState<CalendarDate | null>(null)
  const [scopes, setScopes] = useState<readonly GrantableScope[]>([])
  const [addresses, setAddresses] = useState('')
  const [isAdvanced, setAdvanced] = useState(false)
  const [faults, setFaults] = useState<Faults>({})
  const change = useChange()
  const { isBusy, failure } = change
  const [made, setMade] = useState<CreatedApiKey>()
  // Once: the end of a day may depend on it, and what is sent again is to be the same request.
  const [now] = useState(() => Date.now())

  // What comes back then is shown to nobody.
  useEffect(() => (isBusy ? stayHere(() => undefined) : undefined), [isBusy])
  const { maxDays, requiredAddresses } = policy
  const life = { maxDays, now }
  const mustNameAddresses = requiredAddresses.length > 0

  const putAddresses = (text: string) => {
    setAddresses(text)
    setFaults({ ...faults, addresses: undefined })
  }

  const generate = async () => {
    const ranges = addressesIn(addresses)
    const addressFault =
      mustNameAddresses && ranges.length === 0 ? 'Your organization requires addresses' : faultIn(ranges)
    const dayFault = expiry === 'custom' ? faultInDay(day, life) : undefined
    const found: Faults = {
      ...(label.trim() === '' ? { label: 'Say which program will use the key' } : {}),
      ...(dayFault === undefined ? {} : { day: dayFault }),
      ...(scopes.length === 0 ? { scopes: 'Choose at least one scope' } : {}),
      ...(addressFault === undefined ? {} : { addresses: addressFault }),
    }
    setFaults(found)
    change.setFailure(undefined)
    if (Object.keys(found).length > 0) {
      // After the fields have been marked, whoever types is led to the first of them.
      requestAnimationFrame(() => {
        const first = document.querySelector(
          `[id="${form}"] [aria-invalid="true"], [id="${form}"] [data-invalid] input`,
        )
        if (first instanceof HTMLElement) first.focus()
      })
      return
    }
    await change.run(async (signal) => {
      const wanted = {
        label: label.trim(),
        expires_in: expiry,
        ...(expiry === 'custom' && day !== null ? { expires_at: endOfDay(day, life).toISOString() } : {}),
        scopes,
        allowed_addresses: ranges,
      }
      const created = await attempt.carryOut(wanted, async (id) => await createKey(wanted, id, signal))
      const { key: _value, ...apiKey } = created
      onMade(apiKey)
      setMade(created)
    })
  }

  if (made !== undefined) {
    return (
      <KeyReveal title={`${made.label} is ready`} value={made.key} onDone={onClose}>
        <dl className="facts facts-row">
          <div>
            <dt>Scopes</dt>
            <dd>
              <ScopeList scopes={made.scopes} />
            </dd>
          </div>
          <div>
            <dt>Expires</dt>
            <dd>
              <When at={made.expires_at} />
            </dd>
          </div>
        </dl>
      </KeyReveal>
    )
  }
  return (
    <Dialog
      title="Generate key"
      isOpen
      size="large"
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <>
          <Button onPress={onClose} isDisabled={isBusy}>
            Cancel
          </Button>
          <Button look="primary" type="submit" form={form} isBusy={isBusy}>
            Generate
          </Button>
        </>
      }
    >
      <form
        id={form}
        className="form"
        noValidate
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          if (!isBusy) void generate()
        }}
      >
        {failure === undefined ? undefined : (
          <MakingFailure
            error={failure}
            title="No key was generated"
            unsure="It is not known whether a key was generated"
            onLeave={onClose}
          />
        )}
        <Overdue
          change={change}
          mayBe="A key may already have been made."
          advice="You can try again: no second key is made. If you close this window instead, look for the key in the list before you generate another one."
        />
        <TextBox
          label="Label"
          value={label}
          onChange={(text) => {
            setLabel(text)
            setFaults({ ...faults, label: undefined })
          }}
          error={faults.label}
          maxLength={100}
          placeholder="Nightly export to the BI warehouse"
          help="Which program uses it and for what, so that anybody can tell later."
          autoFocus
        />
        <ExpiryField
          choice={expiry}
          onChoice={setExpiry}
          day={day}
          onDay={(chosen) => {
            setDay(chosen)
            setFaults({ ...faults, day: undefined })
          }}
          error={faults.day}
          life={life}
        />
        <ScopeCards
          value={scopes}
          onChange={(chosen) => {
            setScopes(chosen)
            setFaults({ ...faults, scopes: undefined })
          }}
          error={faults.scopes}
        />
        {mustNameAddresses ? (
          <TextBox
            label="Allowed addresses"
            value={addresses}
            onChange={putAddresses}
            error={faults.addresses}
            rows={3}
            placeholder={requiredAddresses.slice(0, 3).join('\n')}
            help={`From where the program calls, one address or network a line. Your organization requires that they are within ${requiredAddresses.join(', ')}.`}
          />
        ) : (
          <Disclosure
            className="disclosure"
            isExpanded={isAdvanced || faults.addresses !== undefined}
            onExpandedChange={setAdvanced}
          >
            <AriaButton slot="trigger" className="disclosure-button">
              <Icon name="chevron" size={16} />
              Advanced
            </AriaButton>
            <DisclosurePanel>
              <TextBox
                label="Allowed addresses"
                isOptional
                value={addresses}
                onChange={putAddresses}
                error={faults.addresses}
                rows={3}
                placeholder={'203.0.113.0/24\n2001:db8::/32'}
                help="IPv4 or IPv6 addresses or networks, one a line. Requests from elsewhere are refused. Empty: from anywhere."
              />
            </DisclosurePanel>
          </Disclosure>
        )}
      </form>
    </Dialog>
  )
}
