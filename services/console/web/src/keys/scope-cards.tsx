import type { KeyboardEvent } from 'react'
import type { GrantableScope } from '@postern/contracts'
import { Checkbox } from 'react-aria-components/Checkbox'
import { CheckboxGroup } from 'react-aria-components/CheckboxGroup'
import { Disclosure, DisclosurePanel } from 'react-aria-components/Disclosure'
import { Button } from 'react-aria-components/Button'
import { FieldError } from 'react-aria-components/FieldError'
import { Label } from 'react-aria-components/Label'
import { Text } from 'react-aria-components/Text'
import { Badge, type Tone } from '../ui/badge.tsx'
import { Icon } from '../ui/icon.tsx'
import { type Level, type ScopeInfo, namedScopeInfo, wildcardInfo, wildcardOver } from './scope-info.ts'

const tones: Readonly<Record<Level, Tone>> = { Read: 'info', Write: 'warning', Admin: 'danger', Everything: 'danger' }

interface Props {
  readonly value: readonly GrantableScope[]
  readonly onChange: (scopes: readonly GrantableScope[]) => void
  readonly error: string | undefined
  readonly offered?: readonly GrantableScope[]
}

export function ScopeCards({ value, onChange, error, offered }: Props) {
  const isOffered = ({ scope }: ScopeInfo) => offered === undefined || offered.includes(scope)
  const [named, wildcards] = [namedScopeInfo.filter(isOffered), wildcardInfo.filter(isOffered)]
  const all = [...named, ...wildcards]
  return (
    <CheckboxGroup
      className="field"
      value={[...value]}
      onChange={(chosen) => onChange(all.flatMap(({ scope }) => (chosen.includes(scope) ? [scope] : [])))}
      isInvalid={error !== undefined}
      isRequired
      validationBehavior="aria"
    >
      <Label>Scopes</Label>
      <Text slot="description" className="help">
        Choose only what the program needs. Scopes do not imply each other.
      </Text>
      <FieldError className="field-error">{error}</FieldError>
      <div className="cards" onKeyDown={toggleByEnter}>
        {named.map((info) => (
          <ScopeCard key={info.scope} info={info} coveredBy={wildcardOver(value, info.scope)} />
        ))}
      </div>
      {wildcards.length === 0 ? undefined : (
        <Disclosure className="disclosure" defaultExpanded={offered !== undefined}>
          <Button slot="trigger" className="disclosure-button">
            <Icon name="chevron" size={16} />
            Broad access
          </Button>
          <DisclosurePanel>
            <div className="cards" onKeyDown={toggleByEnter}>
              {wildcards.map((info) => (
                <ScopeCard key={info.scope} info={info} coveredBy={wildcardOver(value, info.scope)} />
              ))}
            </div>
          </DisclosurePanel>
        </Disclosure>
      )}
    </CheckboxGroup>
  )
}

/** Enter chooses the focused scope instead of submitting the form. */
function toggleByEnter(event: KeyboardEvent): void {
  if (event.key !== 'Enter' || !(event.target instanceof HTMLInputElement)) return
  event.preventDefault()
  event.target.click()
}

function ScopeCard({ info, coveredBy }: { info: ScopeInfo; coveredBy: GrantableScope | undefined }) {
  return (
    <Checkbox className="choice" value={info.scope}>
      <span className="tick" aria-hidden="true">
        <Icon name="check" size={14} />
      </span>
      <span className="choice-text">
        <span className="scope-head">
          <span className="choice-title">{info.title}</span>
          <Badge tone={tones[info.level]}>{info.level}</Badge>
        </span>
        <code className="scope-name">{info.scope}</code>
        <span className="choice-help">
          {info.grants}
          {coveredBy === undefined ? undefined : <strong> Included in {coveredBy}.</strong>}
        </span>
      </span>
    </Checkbox>
  )
}
