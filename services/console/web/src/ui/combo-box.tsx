import { type ReactNode, useEffect, useLayoutEffect } from 'react'
import { Button } from 'react-aria-components/Button'
import { ComboBox as AriaComboBox } from 'react-aria-components/ComboBox'
import { FieldError } from 'react-aria-components/FieldError'
import { Group } from 'react-aria-components/Group'
import { Input } from 'react-aria-components/Input'
import { Label } from 'react-aria-components/Label'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { Popover } from 'react-aria-components/Popover'
import { Text } from 'react-aria-components/Text'
import { Icon } from './icon.tsx'

interface Props {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  /** What is offered; anything else can be typed. */
  readonly offers: readonly string[]
  readonly help?: ReactNode
  readonly error?: string | undefined
  readonly placeholder?: string
}

/** A line of text with offers that fit what was typed so far. */
export function ComboBox({ label, value, onChange, offers, help, error, placeholder }: Props) {
  return (
    <AriaComboBox
      className="field"
      inputValue={value}
      onInputChange={onChange}
      defaultItems={offers.map((offer) => ({ id: offer }))}
      allowsCustomValue
      menuTrigger="focus"
      isInvalid={error !== undefined}
      validationBehavior="aria"
    >
      {({ isOpen }) => (
        <>
          <KeepPageReadable isOpen={isOpen} />
          <Label>{label}</Label>
          <Group className="input combo">
            <Input
              className="combo-input"
              autoComplete="off"
              spellCheck={false}
              {...(placeholder === undefined ? {} : { placeholder })}
            />
            {offers.length === 0 ? undefined : (
              <Button className="button button-quiet button-small button-icon">
                <Icon name="chevron" size={16} />
              </Button>
            )}
          </Group>
          {help === undefined ? undefined : (
            <Text slot="description" className="help">
              {help}
            </Text>
          )}
          <FieldError className="field-error">{error}</FieldError>
          <Popover className="popover">
            <ListBox<{ readonly id: string }> className="menu">
              {({ id }) => (
                <ListBoxItem className="menu-item" textValue={id}>
                  <span>{id}</span>
                </ListBoxItem>
              )}
            </ListBox>
          </Popover>
        </>
      )}
    </AriaComboBox>
  )
}

/**
 * As soon as the list is open React Aria hides everything but the field and the list from who listens, though it can still be
 * reached by Tab or a click: what has the focus would be nothing. What carries this mark then is spared, so the page
 * carries it until that has been done; longer it must not, for a press beside the list closes it only where there is no mark.
 */
function KeepPageReadable({ isOpen }: { readonly isOpen: boolean }) {
  useLayoutEffect(() => {
    const page = document.getElementById('root')
    if (isOpen && page !== null) page.dataset['reactAriaTopLayer'] = 'true'
  }, [isOpen])
  useEffect(() => {
    if (!isOpen) return
    queueMicrotask(() => delete document.getElementById('root')?.dataset['reactAriaTopLayer'])
  }, [isOpen])
  return undefined
}
