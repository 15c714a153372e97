import type { CalendarDate } from '@internationalized/date'
import { type FormEvent, useEffect, useId, useState } from 'react'
import { Button as AriaButton } from 'react-aria-components/Button'
import { Disclosure, DisclosurePanel } from 'react-aria-components/Disclosure'
import type { Attempt } from '../api/attempt.ts'
import { type ApiKey, type CreatedApiKey, type Expiry, type GrantableScope, createKey } from '../api/keys.ts'
import { confirmLeaving } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Icon } from '../ui/icon.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { Select } from '../ui/select.tsx'
import { useChange } from '../ui/use-change.ts'
import { When } from '../ui/when.tsx'
import { addressesIn, faultIn } from './addresses.ts'
import { ExpiryField } from './expiry-field.tsx'
import { allowedExpiry, endOfDay, faultInDay } from './expiry.ts'
import { ScopeList } from './key-parts.tsx'
import { KeyReveal } from './key-reveal.tsx'
import { CreationFailure } from './creation-failure.tsx'
import { type Prefill, type TemplateId, isTemplateId, templates } from './key-templates.ts'
import { ScopeCards } from './scope-cards.tsx'
import type { KeyRules } from './use-key-policy.ts'

const templateChoices: readonly { readonly value: TemplateId | 'none'; readonly label: string }[] = [
  { value: 'none', label: 'None' },
  ...Object.keys(templates)
    .filter(isTemplateId)
    .map((id) => ({ value: id, label: templates[id].name })),
]

interface Props {
  readonly policy: KeyRules
  /** From a link. */
  readonly prefill: Prefill | undefined
  /** Kept after closing: without a response, reopening repeats the same request. */
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

export function GenerateDialog({ policy, prefill, attempt, onClose, onMade }: Props) {
  const form = useId()
  const [label, setLabel] = useState(prefill?.label ?? '')
  const [template, setTemplate] = useState<TemplateId | 'none'>('none')
  const [expiry, setExpiry] = useState<Expiry>(() => allowedExpiry(prefill?.expiry, policy.maxDays))
  const [day, setDay] = useState<CalendarDate | null>(null)
  const [scopes, setScopes] = useState<readonly GrantableScope[]>(prefill?.scopes ?? [])
  const [addresses, setAddresses] = useState((prefill?.addresses ?? []).join('\n'))
  const [isAdvanced, setAdvanced] = useState((prefill?.addresses ?? []).length > 0)
  const [faults, setFaults] = useState<Faults>({})
  const change = useChange()
  const { isBusy, failure } = change
  const [made, setMade] = useState<CreatedApiKey>()
  // Read once, so that a repeated request is equal.
  const [now] = useState(() => Date.now())

  useEffect(() => (isBusy ? confirmLeaving(() => undefined) : undefined), [isBusy])
  const { maxDays, requiredAddresses } = policy
  const life = { maxDays, now }
  const mustNameAddresses = requiredAddresses.length > 0

  const applyTemplate = (chosen: TemplateId | 'none') => {
    setTemplate(chosen)
    if (chosen === 'none') return
    setScopes(templates[chosen].scopes)
    setExpiry(allowedExpiry(templates[chosen].expiry, maxDays))
    setFaults({ ...faults, scopes: undefined })
  }

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
      ...(label.trim() === '' ? { label: 'Enter which program will use the key' } : {}),
      ...(dayFault === undefined ? {} : { day: dayFault }),
      ...(scopes.length === 0 ? { scopes: 'Choose at least one scope' } : {}),
      ...(addressFault === undefined ? {} : { addresses: addressFault }),
    }
    setFaults(found)
    change.setFailure(undefined)
    if (Object.keys(found).length > 0) {
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
          <CreationFailure
            error={failure}
            title="No key was generated"
            unsure="It is not known whether a key was generated"
            onLeave={onClose}
          />
        )}
        <Overdue
          change={change}
          mayBe="A key may already have been created."
          advice="You can try again without creating a second key. If you close this window, check the list before you generate another key."
        />
        <Select label="Template" choices={templateChoices} value={template} onChange={applyTemplate} />
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
          help="The program that uses the key, and its purpose."
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
            help={`The addresses of the program, one address or network per line. They must be within ${requiredAddresses.join(', ')}.`}
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
                help="IPv4 or IPv6 addresses or networks, one per line. Other addresses are rejected. If empty, all addresses are allowed."
              />
            </DisclosurePanel>
          </Disclosure>
        )}
      </form>
    </Dialog>
  )
}
