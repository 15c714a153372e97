import type { z } from 'zod'

/** The rule for a value, to follow its name: `must be text`. */
export function wordsOf(issue: z.core.$ZodIssue): string {
  if (!/^(?:Invalid|Too (?:small|big)|Unrecognized)\b/.test(issue.message)) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      if (issue.message.endsWith('received undefined')) return 'is missing'
      return `must be ${types[issue.expected] ?? 'a different type'}${issue.message.endsWith('received null') ? ', not null' : ''}`
    case 'invalid_value':
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of ${issue.values.map(String).join(', ')}`
    case 'invalid_format':
      return `must ${formatWords(issue)}`
    case 'too_small':
      return `must ${bound(issue.origin, 'at least', 'more than', issue.minimum, issue.inclusive)}`
    case 'too_big':
      return `must ${bound(issue.origin, 'at most', 'less than', issue.maximum, issue.inclusive)}`
    case 'invalid_union':
      return 'options' in issue && Array.isArray(issue.options)
        ? `must be one of ${issue.options.join(', ')}`
        : unionWords(issue.errors)
    case 'unrecognized_keys':
      return `must not have ${[...issue.keys.join(', ')].slice(0, maxNamed).join('')}`
    case 'invalid_key':
      return `is not an allowed name${issue.issues
        .slice(0, 1)
        .map((own) => `: it ${wordsOf(own)}`)
        .join('')}`
    case 'invalid_element':
      return 'has a value that is not allowed'
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'custom':
      return 'is not valid'
    default:
      return assertNever(issue)
  }
}

function assertNever(_issue: never): string {
  return 'is not valid'
}

function formatWords({ format, prefix, suffix, includes }: FormatIssue): string {
  if (format === 'starts_with' && prefix !== undefined) return `begin with ${prefix}`
  if (format === 'ends_with' && suffix !== undefined) return `end with ${suffix}`
  if (format === 'includes' && includes !== undefined) return `contain ${includes}`
  return `be ${formats[format] ?? 'in the right format'}`
}

interface FormatIssue {
  readonly format: string
  readonly prefix?: string
  readonly suffix?: string
  readonly includes?: string
}

const maxNamed = 80

function unionWords(forms: readonly (readonly z.core.$ZodIssue[])[]): string {
  const expected = forms.map(([first]) =>
    first?.code === 'invalid_type' && first.path.length === 0 ? types[first.expected] : undefined,
  )
  if (expected.length === 0 || expected.includes(undefined)) return 'must match one of the allowed forms'
  return `must be ${[...new Set(expected)].join(' or ')}`
}

const types: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
}

const formats: Readonly<Record<string, string>> = {
  email: 'an e-mail address',
  url: 'a URL',
  uuid: 'a UUID',
  date: 'a calendar date such as 2026-11-21',
  time: 'a time of day such as 09:30:00',
  duration: 'a duration such as P3D',
  ipv4: 'an IPv4 address',
  ipv6: 'an IPv6 address',
  cidrv4: 'an IPv4 network such as 203.0.113.0/24',
  cidrv6: 'an IPv6 network such as 2001:db8::/32',
  base64: 'base64',
  base64url: 'base64url',
  jwt: 'a JWT',
  datetime: 'a valid time with Z or an offset (RFC 3339), such as 2026-11-21T09:30:00Z',
}

function bound(origin: string, orEqual: string, strict: string, limit: number | bigint, isInclusive = true): string {
  const than = `${isInclusive ? orEqual : strict} ${limit}`
  switch (origin) {
    case 'string':
      return `have ${than} character${limit === 1 ? '' : 's'}`
    case 'array':
    case 'set':
    case 'map':
      return `have ${than} item${limit === 1 ? '' : 's'}`
    default:
      return `be ${than}`
  }
}
