export function daysInWords(days: number): string {
  const years = days / 365
  if (days >= 365 && Number.isInteger(years)) return years === 1 ? '1 year' : `${years} years`
  return days === 1 ? '1 day' : `${days.toLocaleString()} days`
}
