import type { CalendarDate } from '@internationalized/date'
import { Button as AriaButton } from 'react-aria-components/Button'
import {
  Calendar,
  CalendarCell,
  CalendarGrid,
  CalendarGridBody,
  CalendarGridHeader,
  CalendarHeaderCell,
  CalendarHeading,
} from 'react-aria-components/Calendar'
import { DateInput, DatePicker, DateSegment } from 'react-aria-components/DatePicker'
import { Dialog } from 'react-aria-components/Dialog'
import { FieldError } from 'react-aria-components/FieldError'
import { Group } from 'react-aria-components/Group'
import { Label } from 'react-aria-components/Label'
import { Popover } from 'react-aria-components/Popover'
import { Radio, RadioGroup } from 'react-aria-components/RadioGroup'
import { Text } from 'react-aria-components/Text'
import type { Expiry } from '../api/keys.ts'
import { Icon } from '../ui/icon.tsx'
import { dayOf, timeZone } from '../ui/when.tsx'
import { type ExpiryBounds, endOf, expiryChoices, isAllowed, possibleDays } from './expiry.ts'

interface Props {
  readonly choice: Expiry
  readonly onChoice: (choice: Expiry) => void
  readonly day: CalendarDate | null
  readonly onDay: (day: CalendarDate | null) => void
  readonly error: string | undefined
  readonly life: ExpiryBounds
}

export function ExpiryField({ choice, onChoice, day, onDay, error, life }: Props) {
  const { maxDays, now } = life
  const { first, last } = possibleDays(life)
  return (
    <div className="field">
      <RadioGroup
        className="field"
        value={choice}
        onChange={(value) => {
          const chosen = expiryChoices.find((each) => each.value === value)
          if (chosen !== undefined) onChoice(chosen.value)
        }}
      >
        <Label>Expiration</Label>
        <div className="choices">
          {expiryChoices.map(({ value, label }) => (
            <Radio key={value} value={value} className="choice period" isDisabled={!isAllowed(value, maxDays)}>
              <span className="choice-title">{label}</span>
              <span className="choice-help">
                {value === 'custom'
                  ? 'Choose a date'
                  : isAllowed(value, maxDays)
                    ? dayOf(new Date(endOf(value, now)).toISOString())
                    : 'Not allowed'}
              </span>
            </Radio>
          ))}
        </div>
      </RadioGroup>
      {choice === 'custom' ? (
        <DatePicker
          className="field date-field"
          value={day}
          onChange={onDay}
          minValue={first}
          maxValue={last}
          isInvalid={error !== undefined}
          isRequired
          validationBehavior="aria"
          shouldForceLeadingZeros
        >
          <Label>Last day</Label>
          <Group className="input date-input">
            <DateInput className="date-segments">
              {(segment) => <DateSegment className="date-segment" segment={segment} />}
            </DateInput>
            <AriaButton className="button button-quiet button-small button-icon">
              <Icon name="chevron" size={16} />
            </AriaButton>
          </Group>
          <Text slot="description" className="help">
            The key works until the end of that day ({timeZone}).
          </Text>
          <FieldError className="field-error">{error}</FieldError>
          <Popover className="popover popover-calendar">
            <Dialog className="calendar-dialog">
              <Calendar>
                <header className="calendar-head">
                  <AriaButton slot="previous" className="button button-quiet button-small button-icon">
                    <Icon name="back" size={16} />
                  </AriaButton>
                  <CalendarHeading className="calendar-title" />
                  <AriaButton slot="next" className="button button-quiet button-small button-icon calendar-next">
                    <Icon name="back" size={16} />
                  </AriaButton>
                </header>
                <CalendarGrid>
                  <CalendarGridHeader>
                    {(name) => <CalendarHeaderCell className="calendar-weekday">{name}</CalendarHeaderCell>}
                  </CalendarGridHeader>
                  <CalendarGridBody>{(date) => <CalendarCell className="calendar-day" date={date} />}</CalendarGridBody>
                </CalendarGrid>
              </Calendar>
            </Dialog>
          </Popover>
        </DatePicker>
      ) : undefined}
    </div>
  )
}
