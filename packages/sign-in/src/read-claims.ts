import { type Role, roles, uuidSchema } from '@postern/contracts'
import { tenantSlugSchema } from '@postern/contracts/internal'
import { resolvePointer } from './pointer.ts'
import { type SignInRefusal, shorten } from './refusal.ts'
import type { DirectoryMatch, SignInProvider } from './settings.ts'

/** The roles in one tenant. Two grants can name one tenant, by its id and by its slug. */
export interface Grant {
  /** The id or the slug of the tenant. */
  readonly tenant: string
  readonly roles: readonly Role[]
}

export interface Person {
  readonly subject: string
  readonly name: string
  /** Whether it is a service account. Its name is that of its client. */
  readonly isMachine: boolean
  /** At least one. */
  readonly grants: readonly Grant[]
  /** The pointer that named the tenants. Undefined: `tenant.otherwise`. */
  readonly tenantFrom: string | undefined
  /** Why there are no roles. */
  readonly withoutRoles: SignInRefusal | undefined
  /** The name by which the directory of each tenant knows the person. Undefined: no directory counts. */
  readonly inDirectory: DirectoryName | undefined
}

export interface DirectoryName extends DirectoryMatch {
  readonly name: string
}

export type ClaimsReading =
  | { readonly kind: 'person'; readonly person: Person }
  | { readonly kind: 'refused'; readonly refusal: SignInRefusal }

export type Claims = Readonly<Record<string, unknown>>

/** OpenID Connect Core §2. */
const maxSubjectCharacters = 255
const maxNameCharacters = 200
/** With the longest subject the context still fits its header. */
const maxEncodedName = 1200
const maxGrants = 100

/** Reads who the claims of a verified token describe, and where they may work. On doubt it refuses. */
export function readClaims(provider: SignInProvider, claims: Claims): ClaimsReading {
  const subject = readSubject(provider, claims)
  if (typeof subject !== 'string') return { kind: 'refused', refusal: subject }
  const machine = findMachine(claims)
  const isMachine = machine !== undefined
  // A client that the token names in another claim must be accepted as well.
  if (isMachine && (machine.length === 0 || !machine.every((client) => provider.machines.has(client)))) {
    const refusal: SignInRefusal = {
      code: 'machine_refused',
      found: machine.length === 0 ? 'nothing' : shorten(machine.join(', ')),
      ...(provider.machines.size === 0 ? {} : { wanted: shorten([...provider.machines]) }),
    }
    return { kind: 'refused', refusal }
  }
  const name = isMachine ? cut(machine[0] ?? subject) : readName(provider, claims, subject)
  // Service accounts are in no directory.
  const inDirectory = isMachine ? undefined : readDirectoryName(provider, claims)
  if (inDirectory !== undefined && 'code' in inDirectory) return { kind: 'refused', refusal: inDirectory }
  const grants = readGrants(provider, claims)
  const common = { subject, name, isMachine, inDirectory }
  if (grants.length > maxGrants) {
    const refusal: SignInRefusal = {
      code: 'too_many_tenants',
      found: `${grants.length}`,
      wanted: `at most ${maxGrants}`,
    }
    return { kind: 'refused', refusal }
  }
  if (grants.length > 0) {
    const tenantFrom = findClaim(claims, provider.grants?.from ?? [])
    return { kind: 'person', person: { ...common, grants, tenantFrom, withoutRoles: undefined } }
  }
  const tenant = readTenant(provider, claims)
  if (typeof tenant !== 'string') return { kind: 'refused', refusal: tenant }
  const given = readRoles(provider, claims)
  const own = findOwnRole(provider, claims)
  const all = roles.filter((role) => role === own || given.roles.includes(role))
  const withoutRoles = all.length === 0 ? given.refusal : undefined
  const tenantFrom = findClaim(claims, provider.tenant.from)
  return { kind: 'person', person: { ...common, grants: [{ tenant, roles: all }], tenantFrom, withoutRoles } }
}

interface Read {
  readonly pointer: string
  readonly value: unknown
}

/** Reads the first pointer whose claim has a value. */
function readFirst(claims: Claims, from: readonly string[]): Read | undefined {
  for (const pointer of from) {
    const value = resolvePointer(claims, pointer)
    if (!isNothing(value)) return { pointer, value }
  }
  return undefined
}

/** Returns the refusal if none of the tenants exists. */
export function refuseTenants({ grants, tenantFrom }: Pick<Person, 'grants' | 'tenantFrom'>): SignInRefusal {
  const read = tenantFrom === undefined ? {} : { read: [tenantFrom] }
  return { code: 'tenant_unknown', ...read, found: shorten(grants.map(({ tenant }) => tenant).join(', ')) }
}

/** Returns the first pointer whose claim has a value. */
export function findClaim(claims: Claims, from: readonly string[]): string | undefined {
  return readFirst(claims, from)?.pointer
}

function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

function readSubject(provider: SignInProvider, claims: Claims): string | SignInRefusal {
  const read = readFirst(claims, provider.subject)
  const refusal: SignInRefusal = { code: 'subject_invalid', read: provider.subject, found: shorten(read?.value) }
  if (
    typeof read?.value !== 'string' ||
    provider.foreignPrefixes.some((prefix) => String(read.value).startsWith(prefix))
  )
    return refusal
  const subject = provider.personPrefix + read.value
  // It is signed for services, and recorded in logs and rows.
  const isUsable = subject.length <= maxSubjectCharacters && subject.isWellFormed() && !subject.includes('\0')
  return isUsable ? subject : refusal
}

/** Without a usable name nobody can tell whether the person has left. */
function readDirectoryName({ directory }: SignInProvider, claims: Claims): DirectoryName | SignInRefusal | undefined {
  if (directory === undefined) return undefined
  const value = resolvePointer(claims, directory.match)
  // Larger numbers lose digits, and with them the person.
  const name = Number.isSafeInteger(value) ? String(value) : value
  const isUsable = typeof name === 'string' && name !== '' && name.isWellFormed() && !name.includes('\0')
  // People can often edit an address that the provider has not verified.
  if (isUsable && (directory.with !== 'emails.value' || claims['email_verified'] === true))
    return { ...directory, name }
  return { code: 'directory_claim_absent', read: [directory.match], found: shorten(value) }
}

/**
 * Returns the distinct clients of a service account, by the marks of Entra ID, Auth0, Okta, Cognito and Keycloak.
 * Undefined for a person.
 */
function findMachine(claims: Claims): readonly string[] | undefined {
  const clients = ['client_id', 'clientId', 'azp', 'cid', 'appid'].flatMap((name) => {
    const value = claims[name]
    return typeof value === 'string' ? [value] : []
  })
  const { sub, idtyp, gty, preferred_username: account } = claims
  const isMachine =
    idtyp === 'app' ||
    gty === 'client-credentials' ||
    clients.some((client) => sub === client || account === `service-account-${client.toLowerCase()}`)
  return isMachine ? [...new Set(clients)] : undefined
}

function readTenant(provider: SignInProvider, claims: Claims): string | SignInRefusal {
  const { from, map, otherwise } = provider.tenant
  const everywhere = [...(provider.grants?.from ?? []), ...from]
  const read = readFirst(claims, from)
  if (read === undefined) return otherwise ?? { code: 'tenant_claim_absent', read: everywhere }
  const where = { read: [read.pointer], found: shorten(read.value) }
  const candidates = candidatesOf(read.value)
  // Of groups, only those count that the map names.
  const mapped = new Set(candidates.flatMap((each) => (typeof each === 'string' ? (map.get(each) ?? []) : [])))
  const [tenant, ...others] = mapped
  if (others.length > 0) return { code: 'tenant_ambiguous', ...where }
  if (tenant !== undefined) return tenant
  if (candidates.length > 1) return { code: 'tenant_ambiguous', ...where }
  const [candidate] = candidates
  return (typeof candidate === 'string' ? referenceOf(candidate) : undefined) ?? { code: 'tenant_unknown', ...where }
}

/** Reads names such as `/postern/harbourline/auditor`. Names of another form, or of an unknown tenant, give nothing. */
export function readGrants({ grants, tenant: { map } }: SignInProvider, claims: Claims): readonly Grant[] {
  const read = grants === undefined ? undefined : readFirst(claims, grants.from)
  if (grants === undefined || read === undefined) return []
  const found = new Map<string, Set<Role>>()
  for (const name of candidatesOf(read.value)) {
    for (const { role, before, after } of typeof name === 'string' ? grants.forms : []) {
      const given = String(name).slice(before.length, String(name).length - after.length)
      if (given === '' || name !== before + given + after) continue
      const tenant = map.get(given) ?? referenceOf(given)
      if (tenant !== undefined) found.set(tenant, (found.get(tenant) ?? new Set()).add(role))
    }
  }
  return [...found].map(([tenant, theirs]) => ({ tenant, roles: roles.filter((role) => theirs.has(role)) }))
}

/** A text, the entries of a list, or the keys of an object (Keycloak's organizations). */
function candidatesOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return typeof value === 'object' && value !== null ? Object.keys(value) : [value]
}

function referenceOf(text: string): string | undefined {
  const id = uuidSchema.safeParse(text)
  if (id.success) return id.data
  return tenantSlugSchema.safeParse(text).success ? text : undefined
}

const prefixed: ReadonlyMap<string, Role> = new Map(
  roles.flatMap((role) => [
    [`postern-${role}`, role],
    [`/postern/${role}`, role],
  ]),
)

function readRoles(
  provider: SignInProvider,
  claims: Claims,
): { readonly roles: readonly Role[]; readonly refusal: SignInRefusal } {
  const { from, map = prefixed } = provider.roles
  const read = readFirst(claims, from)
  if (read === undefined) return { roles: [], refusal: { code: 'roles_claim_absent', read: from } }
  const names = namesOf(read.value, map)
  const found = names.flatMap((name) => map.get(name) ?? [])
  const nearest = findNearest(names, map)
  const refusal: SignInRefusal = {
    code: 'no_mapped_role',
    read: [read.pointer],
    found: shorten(read.value),
    ...(nearest === undefined ? {} : { nearest: shorten(nearest) }),
  }
  return { roles: found, refusal }
}

/** A list of names, one name, or words. */
function namesOf(value: unknown, map: ReadonlyMap<string, Role>): readonly string[] {
  if (Array.isArray(value)) return value.filter((name) => typeof name === 'string')
  if (typeof value !== 'string') return []
  return map.has(value) ? [value] : value.split(' ')
}

function withoutPrefix(name: string): string {
  return name
    .toLowerCase()
    .replace(/^\//, '')
    .replace(/^postern[-/]/, '')
}

/** Finds a mapped name that differs only in case, a leading slash or the prefix. */
function findNearest(names: readonly string[], map: ReadonlyMap<string, Role>): string | undefined {
  const found = new Set(names.map(withoutPrefix))
  return [...map.keys()].find((name) => found.has(withoutPrefix(name)))
}

/** An address counts only if the provider has verified it, because people can often edit theirs. */
function findOwnRole({ people, subject }: SignInProvider, claims: Claims): Role | undefined {
  const { email, email_verified: isVerified } = claims
  const bySubject = readFirst(claims, subject)?.value
  const byAddress = typeof email === 'string' && isVerified === true ? people.get(email.toLowerCase()) : undefined
  return (typeof bySubject === 'string' ? people.get(bySubject) : undefined) ?? byAddress
}

function readName({ displayName }: SignInProvider, claims: Claims, subject: string): string {
  for (const pointer of displayName) {
    const value = resolvePointer(claims, pointer)
    const name = typeof value === 'string' ? cut(value.normalize('NFC')) : ''
    if (name !== '') return name
  }
  return cut(subject)
}

/** Cuts a name to what rows and headers hold. */
function cut(name: string): string {
  let short = ''
  let encoded = 0
  for (const character of name
    .slice(0, maxNameCharacters + 1)
    .toWellFormed()
    .replaceAll('\0', '\ufffd')) {
    encoded += encodeURIComponent(character).length
    if (short.length + character.length > maxNameCharacters || encoded > maxEncodedName) break
    short += character
  }
  return short
}
