import {
  type ScimUserInput,
  enterpriseUrn,
  inOneLine,
  isEmailAddress,
  scimUserInputSchema,
  wordsOf,
} from '@postern/contracts'
import { inputErrors, problem } from '@postern/service-kit'
import { type PushedPerson, pushedPersonSchema } from '@postern/contracts'

/** What is kept of a user: what the provider has sent, without what is empty and without the urns of its schemas. */
export type UserContent = Readonly<Record<string, unknown>>

/** What a user is in the universe, and where it belongs in the hierarchy `scim`. */
export interface UserFacts {
  readonly userName: string
  readonly externalId: string | undefined
  readonly active: boolean
  readonly email: string | undefined
  /** What stands where the address should be, if the user has no address that can be used. */
  readonly unusableEmail: string | undefined
  readonly name: string
  readonly title: string | undefined
  readonly unit: Unit | undefined
  /** The id of another user, or the externalId; of the enterprise extension. */
  readonly manager: string | undefined
}

/** A user: what is kept of it, and what it means. */
export interface User {
  readonly content: UserContent
  readonly facts: UserFacts
}

/** A department in its division; either may be missing. */
export interface Unit {
  readonly division: string | undefined
  readonly department: string | undefined
}

/**
 * Reads a user as it was sent, or as a change has left it, of one that was `active` so far: where nothing is said of that it stays, so
 * that nobody who has left comes back by what was left out. `mayBeUnassigned`: a change has perhaps removed `active`, which is then
 * not shown (RFC 7644 §3.5.2.2). Throws what SCIM calls `invalidValue`.
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
  const division = some(enterprise?.division)
  const department = some(enterprise?.department)
  const given = [user.name?.givenName, user.name?.familyName].map(some).filter((part) => part !== undefined)
  const emails = emailsOf(user)
  const email = emails.find(isEmailAddress)
  return {
    userName: user.userName,
    externalId: user.externalId ?? undefined,
    active: user.active ?? active,
    email: email?.toLowerCase(),
    unusableEmail: email === undefined ? emails[0] : undefined,
    name: (some(user.displayName) ?? some(user.name?.formatted) ?? some(given.join(' ')) ?? user.userName).slice(
      0,
      255,
    ),
    title: some(user.title),
    unit: division === undefined && department === undefined ? undefined : { division, department },
    manager: some(enterprise?.manager?.value),
  }
}

/** The addresses in order of preference: the primary one, those of work, the others. */
function emailsOf({ emails }: ScimUserInput): string[] {
  return (emails ?? []).toSorted((a, b) => rankOf(a) - rankOf(b)).flatMap(({ value }) => some(value) ?? [])
}

function rankOf({ primary, type }: NonNullable<ScimUserInput['emails']>[number]): number {
  if (primary === true) return 0
  return type?.toLowerCase() === 'work' ? 1 : 2
}

/** The row of a push that makes the universe's person what the user is. Throws where the universe could not take it. */
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
      detail: `cannot be taken over: ${wordsOf(issue)}`,
    })),
  })
}

/** Names and titles of the universe have one line. */
function some(text: string | null | undefined): string | undefined {
  const one = inOneLine(text ?? '')
  return one === '' ? undefined : one
}

/** Null and empty are the same as not there (RFC 7643 §2.5). */
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

/** How the urns begin of which we have some: what is misspelt there is nobody else's. */
const ours = ['urn:ietf:params:scim:schemas:core:', 'urn:ietf:params:scim:schemas:extension:enterprise:']

/** Whether a path is that of a schema that is not ours, or within it: nothing is kept of it, as of a whole resource that has it. */
export function isOfOtherSchema(path: string): boolean {
  const lower = path.toLowerCase()
  return /^urn:[a-z0-9-]+:/.test(lower) && !ours.some((begin) => lower.startsWith(begin))
}

/** Whether two names differ by case alone: they are one (RFC 7643 §2.1). */
export function hasNameTwice(value: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(value)
  return new Set(names.map((name) => name.toLowerCase())).size < names.length
}
