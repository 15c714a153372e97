import {
  type PushedPerson,
  type ScimUserInput,
  enterpriseUrn,
  inOneLine,
  isEmailAddress,
  pushedPersonSchema,
  scimUserInputSchema,
  wordsOf,
} from '@postern/contracts'
import { inputErrors, problem } from '@postern/service-kit'

/** What the provider sent, without empty values and schema URNs. */
export type UserContent = Readonly<Record<string, unknown>>

export interface UserFacts {
  readonly userName: string
  readonly externalId: string | undefined
  readonly active: boolean
  readonly email: string | undefined
  /** The first address, if the user has no valid one. */
  readonly unusableEmail: string | undefined
  readonly name: string
  readonly title: string | undefined
  readonly unit: Unit | undefined
  readonly manager: string | undefined
}

export interface User {
  readonly content: UserContent
  readonly facts: UserFacts
}

export interface Unit {
  readonly division: string | undefined
  readonly department: string | undefined
}

/**
 * Parses a user. Without `active`, it has the given state. `mayBeUnassigned`: a patch may have removed `active` (RFC 7644, section
 * 3.5.2.2). Throws `invalidValue`.
 */
export function readUser(sent: unknown, active = true, { mayBeUnassigned = false } = {}): User {
  const parsed = scimUserInputSchema.safeParse(sent)
  if (!parsed.success) {
    throw problem('invalid_content', {
      detail: 'The user would not be valid.',
      errors: inputErrors(parsed.error, 'body'),
    })
  }
  const { schemas: _schemas, ...rest } = parsed.data
  const facts = factsOf(parsed.data, active)
  const content = withoutEmpty(mayBeUnassigned ? rest : { ...rest, active: facts.active })
  return { content: isRecord(content) ? content : {}, facts }
}

function factsOf(user: ScimUserInput, active: boolean): UserFacts {
  const enterprise = user[enterpriseUrn]
  const division = textIfAny(enterprise?.division)
  const department = textIfAny(enterprise?.department)
  const given = [user.name?.givenName, user.name?.familyName].map(textIfAny).filter((part) => part !== undefined)
  const emails = emailsOf(user)
  const email = emails.find(isEmailAddress)
  return {
    userName: user.userName,
    externalId: user.externalId ?? undefined,
    active: user.active ?? active,
    email: email?.toLowerCase(),
    unusableEmail: email === undefined ? emails[0] : undefined,
    name: cutName(
      textIfAny(user.displayName) ?? textIfAny(user.name?.formatted) ?? textIfAny(given.join(' ')) ?? user.userName,
    ),
    title: textIfAny(user.title),
    unit: division === undefined && department === undefined ? undefined : { division, department },
    manager: textIfAny(enterprise?.manager?.value),
  }
}

/** Never ends with half of a character. */
function cutName(name: string): string {
  return name.slice(0, 255).replace(/[\uD800-\uDBFF]$/, '')
}

function emailsOf({ emails }: ScimUserInput): string[] {
  return (emails ?? []).toSorted((a, b) => rankOf(a) - rankOf(b)).flatMap(({ value }) => textIfAny(value) ?? [])
}

function rankOf({ primary, type }: NonNullable<ScimUserInput['emails']>[number]): number {
  if (primary === true) return 0
  return type?.toLowerCase() === 'work' ? 1 : 2
}

/** Throws a problem if the universe would reject the person. */
export function personOf(
  personKey: string,
  { name, email, title, active }: Pick<UserFacts, 'name' | 'email' | 'title' | 'active'>,
): PushedPerson {
  const parsed = pushedPersonSchema.safeParse({
    external_id: personKey,
    name,
    ...(email === undefined ? {} : { email }),
    ...(title === undefined ? {} : { title }),
    active,
  })
  if (parsed.success) return parsed.data
  throw problem('invalid_content', {
    detail: 'The user would not be valid.',
    errors: parsed.error.issues.map((issue) => ({
      pointer: issue.path[0] === 'email' ? '/emails' : `/${String(issue.path[0] ?? '')}`,
      code: 'invalidValue',
      detail: `is not valid: ${wordsOf(issue)}`,
    })),
  })
}

function textIfAny(text: string | null | undefined): string | undefined {
  const one = inOneLine(text ?? '')
  return one === '' ? undefined : one
}

/** Null and empty values are the same as missing ones (RFC 7643, section 2.5). */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(withoutEmpty).filter((item) => item !== undefined)
    return items.length === 0 ? undefined : items
  }
  if (!isRecord(value)) return value === null || value === '' ? undefined : value
  const members = Object.entries(value).flatMap(([name, inner]) => {
    const kept = withoutEmpty(inner)
    return kept === undefined ? [] : [[name, kept] as const]
  })
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Under these prefixes, an unknown name is an error of the client. */
const ownPrefixes = ['urn:ietf:params:scim:schemas:core:', 'urn:ietf:params:scim:schemas:extension:enterprise:']

/** Returns whether the path belongs to an unsupported schema, whose values are ignored. */
export function isOfOtherSchema(path: string): boolean {
  const lower = path.toLowerCase()
  return /^urn:[a-z0-9-]+:/.test(lower) && !ownPrefixes.some((prefix) => lower.startsWith(prefix))
}

/** Returns whether two names are equal except for their case (RFC 7643, section 2.1). */
export function hasNameTwice(value: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(value)
  return new Set(names.map((name) => name.toLowerCase())).size < names.length
}
