import type { Connector } from '../../api/sync.ts'

export const scheduleChoices = [
  { value: 'none', label: 'On demand' },
  { value: 'hourly', label: 'Every hour' },
  { value: 'daily', label: 'Every day' },
  { value: 'weekdays', label: 'Monday to Friday' },
  { value: 'weekly', label: 'Once a week' },
  { value: 'monthly', label: 'Once a month' },
  { value: 'custom', label: 'Cron expression' },
] as const

export const weekdays = [
  { value: '1', label: 'Monday' },
  { value: '2', label: 'Tuesday' },
  { value: '3', label: 'Wednesday' },
  { value: '4', label: 'Thursday' },
  { value: '5', label: 'Friday' },
  { value: '6', label: 'Saturday' },
  { value: '0', label: 'Sunday' },
] as const

export interface ScheduleDraft {
  readonly kind: (typeof scheduleChoices)[number]['value']
  readonly hour: number
  readonly minute: number
  readonly weekday: (typeof weekdays)[number]['value']
  /** 1 to 28, which every month has. */
  readonly day: number
  readonly cron: string
  readonly timeZone: string
}

export function noSchedule(timeZone: string): ScheduleDraft {
  return { kind: 'none', hour: 2, minute: 30, weekday: '1', day: 1, cron: '', timeZone }
}

export function scheduleOf(draft: ScheduleDraft): Connector['schedule'] {
  return draft.kind === 'none' ? null : { cron: cronOf(draft), time_zone: draft.timeZone.trim() }
}

function cronOf({ kind, hour, minute, weekday, day, cron }: ScheduleDraft): string {
  switch (kind) {
    case 'hourly':
      return `${minute} * * * *`
    case 'daily':
      return `${minute} ${hour} * * *`
    case 'weekdays':
      return `${minute} ${hour} * * 1-5`
    case 'weekly':
      return `${minute} ${hour} * * ${weekday}`
    case 'monthly':
      return `${minute} ${hour} ${day} * *`
    default:
      return cron.trim()
  }
}

/** Returns the form's choice for the schedule, or `custom` with its cron expression. */
export function scheduleDraftOf(schedule: Connector['schedule'], timeZone: string): ScheduleDraft {
  if (schedule === null) return noSchedule(timeZone)
  const { cron } = schedule
  const draft = { ...noSchedule(schedule.time_zone), cron, kind: 'custom' as const }
  const [, minute, hour, day, weekday] = /^(\d{1,2}) (\d{1,2}|\*) (\d{1,2}|\*) \* ([0-6]|1-5|\*)$/.exec(cron) ?? []
  if (minute === undefined || hour === undefined || day === undefined || weekday === undefined) return draft
  const at = { ...draft, minute: Number(minute), hour: hour === '*' ? 2 : Number(hour) }
  if (at.minute > 59 || at.hour > 23) return draft
  if (hour === '*') return day === '*' && weekday === '*' ? { ...at, kind: 'hourly' } : draft
  if (day !== '*') {
    const isPlain = weekday === '*' && Number(day) >= 1 && Number(day) <= 28
    return isPlain ? { ...at, kind: 'monthly', day: Number(day) } : draft
  }
  if (weekday === '*') return { ...at, kind: 'daily' }
  if (weekday === '1-5') return { ...at, kind: 'weekdays' }
  const found = weekdays.find(({ value }) => value === weekday)
  return found === undefined ? draft : { ...at, kind: 'weekly', weekday: found.value }
}

export function scheduleInWords(schedule: Connector['schedule']): string {
  if (schedule === null) return 'On demand'
  const draft = scheduleDraftOf(schedule, schedule.time_zone)
  const time = `${String(draft.hour).padStart(2, '0')}:${String(draft.minute).padStart(2, '0')}`
  switch (draft.kind) {
    case 'hourly':
      return `Every hour, ${draft.minute} minutes past`
    case 'daily':
      return `Every day at ${time}`
    case 'weekdays':
      return `Monday to Friday at ${time}`
    case 'weekly':
      return `Every ${weekdays.find(({ value }) => value === draft.weekday)?.label ?? 'week'} at ${time}`
    case 'monthly':
      return `On day ${draft.day} of every month at ${time}`
    default:
      return schedule.cron
  }
}
