import { ComboBox } from '../../ui/combo-box.tsx'
import { TextBox } from '../../ui/fields.tsx'
import { Select } from '../../ui/select.tsx'
import type { Faults } from './draft.ts'
import { type ScheduleDraft, scheduleChoices, weekdays } from './schedule.ts'

interface Props {
  readonly schedule: ScheduleDraft
  readonly onChange: (schedule: ScheduleDraft) => void
  readonly faults: Faults
}

const two = (value: number) => String(value).padStart(2, '0')
const upTo = (count: number, from = 0) => Array.from({ length: count }, (_, place) => place + from)
const hours = upTo(24).map((hour) => ({ value: String(hour), label: two(hour) }))
const minutes = upTo(12).map((step) => ({ value: String(step * 5), label: two(step * 5) }))
const days = upTo(28, 1).map((day) => ({ value: String(day), label: String(day) }))
const zones: readonly string[] = ['UTC', ...Intl.supportedValuesOf('timeZone')]

export function ScheduleSection({ schedule, onChange, faults }: Props) {
  const { kind, hour, minute, weekday, day, cron, timeZone } = schedule
  const put = (change: Partial<ScheduleDraft>) => onChange({ ...schedule, ...change })
  const hasHour = ['daily', 'weekdays', 'weekly', 'monthly'].includes(kind)
  const offered = minutes.some(({ value }) => value === String(minute))
    ? minutes
    : [...minutes, { value: String(minute), label: two(minute) }].toSorted((one, other) => +one.value - +other.value)
  return (
    <div className="settings settings-small">
      <Select label="Runs" choices={scheduleChoices} value={kind} onChange={(chosen) => put({ kind: chosen })} />
      {kind === 'weekly' ? (
        <Select label="On" choices={weekdays} value={weekday} onChange={(chosen) => put({ weekday: chosen })} />
      ) : undefined}
      {kind === 'monthly' ? (
        <Select label="On day" choices={days} value={String(day)} onChange={(chosen) => put({ day: Number(chosen) })} />
      ) : undefined}
      {hasHour ? (
        <Select
          label="Hour"
          choices={hours}
          value={String(hour)}
          onChange={(chosen) => put({ hour: Number(chosen) })}
        />
      ) : undefined}
      {hasHour || kind === 'hourly' ? (
        <Select
          label="Minute"
          choices={offered}
          value={String(minute)}
          onChange={(chosen) => put({ minute: Number(chosen) })}
        />
      ) : undefined}
      {kind === 'custom' ? (
        <TextBox
          label="Cron"
          value={cron}
          onChange={(text) => put({ cron: text })}
          error={faults['schedule.cron']}
          maxLength={100}
          placeholder="30 2 * * 1-5"
          help="Minute, hour, day of month, month, day of week; at least five minutes apart."
        />
      ) : undefined}
      {kind === 'none' ? undefined : (
        <ComboBox
          label="Time zone"
          value={timeZone}
          onChange={(zone) => put({ timeZone: zone })}
          offers={zones}
          error={faults['schedule.time_zone']}
          help="The time of day stays the same when clocks change."
        />
      )}
    </div>
  )
}
