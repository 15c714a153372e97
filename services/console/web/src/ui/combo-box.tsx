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
  readonly offers: readonly string[]
  readonly help?: ReactNode
  readonly error?: string | undefined
  readonly placeholder?: string
}

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
 * React Aria hides the page outside an open list from screen readers. This exempts it while the list opens; later it
 * would block closing.
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
