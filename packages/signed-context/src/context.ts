import { nilTenantId, isTenantId } from './tenant-id.ts'

/** An API key, a signed-in person, a service account of a provider, an operator of the platform, or a service of Postern. */
export const callerKinds = ['api_key', 'user', 'machine', 'operator', 'service'] as const
export type CallerKind = (typeof callerKinds)[number]

/** The caller in the `postern-context` header. */
export interface Caller {
  /** The nil UUID for an operator, or for a service without a tenant. */
  readonly tenantId: string
  readonly kind: CallerKind
  /** Not empty. */
  readonly id: string
  /** The label of the key or the name of the person; the address of a client without credentials. May be empty. */
  readonly label: string
  /** Named scopes, with wildcards expanded. */
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
}

/** The caller, and the assertion that gives access to the tenant's rows in PostgreSQL. */
export interface TenantContext extends Caller {
  /** `none` if the request acts for no tenant. */
  readonly assertion: string
}

/** The assertion of a request that acts for no tenant. */
export const noAssertion = 'none'

/** Well below the size limit of a header section. */
const maxCharacters = 4096

const scopePattern = /^[a-z][a-z_]*:[a-z][a-z_]*$/
const rolePattern = /^[a-z][a-z_]*$/

// A fixed order, and no class contains its own delimiter, so that matching is linear.
const contextPattern =
  /^tenant="([0-9a-f-]{36})", kind=(api_key|user|machine|operator|service), id="([A-Za-z0-9!'()*\-._~%]+)", label="([A-Za-z0-9!'()*\-._~%]*)", scopes="([a-z_: ]*)"(?:, roles="([a-z_ ]*)")?$/

/** Writes a dictionary (RFC 9651 §3.2) with one spelling per caller. Throws if the caller cannot be parsed back. */
export function serializeContext(caller: Caller): string {
  assertCaller(caller)
  const text =
    `tenant="${caller.tenantId}", kind=${caller.kind}, id="${encodeURIComponent(caller.id)}"` +
    `, label="${encodeURIComponent(caller.label)}", scopes="${caller.scopes.join(' ')}"` +
    (hasRoles(caller.kind) ? `, roles="${caller.roles.join(' ')}"` : '')
  if (text.length > maxCharacters) throw new RangeError(`a context has at most ${maxCharacters} characters`)
  return text
}

/** Returns undefined unless serializeContext wrote this text. Does not verify who sent it. */
export function parseContext(text: string): Caller | undefined {
  if (text.length > maxCharacters) return undefined
  const [, tenantId, kind, id, label, scopes, roles] = contextPattern.exec(text) ?? []
  if (tenantId === undefined || id === undefined || label === undefined || scopes === undefined) return undefined
  const callerKind = callerKinds.find((known) => known === kind)
  const decodedId = decode(id)
  const decodedLabel = decode(label)
  if (callerKind === undefined || decodedId === undefined || decodedLabel === undefined) return undefined
  if ((roles !== undefined) !== hasRoles(callerKind)) return undefined
  const caller: Caller = {
    tenantId,
    kind: callerKind,
    id: decodedId,
    label: decodedLabel,
    scopes: splitWords(scopes),
    roles: splitWords(roles ?? ''),
  }
  return findFault(caller) === undefined ? caller : undefined
}

function assertCaller(caller: Caller): void {
  const fault = findFault(caller)
  if (fault !== undefined) throw new TypeError(fault)
}

function findFault({ tenantId, kind, id, label, scopes, roles }: Caller): string | undefined {
  if (!isTenantId(tenantId)) return 'the tenant id of a caller must be a lower-case UUID'
  if (tenantId === nilTenantId && kind !== 'operator' && kind !== 'service')
    return 'an API key or a person belongs to a tenant'
  if (id === '' || !id.isWellFormed()) return 'the id of a caller must be a well-formed text that is not empty'
  if (!label.isWellFormed()) return 'the label of a caller must be a well-formed text'
  if (!areDistinct(scopes) || !scopes.every((scope) => scopePattern.test(scope)))
    return 'the scopes of a caller must be distinct named scopes'
  if (!areDistinct(roles) || !roles.every((role) => rolePattern.test(role)))
    return 'the roles of a caller must be distinct words'
  if (roles.length > 0 && !hasRoles(kind)) return 'only people and machines have roles'
  return undefined
}

function hasRoles(kind: CallerKind): boolean {
  return kind === 'user' || kind === 'machine'
}

function areDistinct(list: readonly string[]): boolean {
  return new Set(list).size === list.length
}

function splitWords(text: string): readonly string[] {
  return text === '' ? [] : text.split(' ')
}

/** Returns undefined unless encodeURIComponent would write the same text. */
function decode(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    const decoded = decodeURIComponent(text)
    return encodeURIComponent(decoded) === text ? decoded : undefined
  } catch (error) {
    if (error instanceof URIError) return undefined
    throw error
  }
}
