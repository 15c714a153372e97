import { nilTenantId, isTenantId } from './tenant-id.ts'

/** What a caller can be: an integration's key, a signed-in person, the operator of the platform, a part of Postern. */
export const callerKinds = ['api_key', 'user', 'operator', 'service'] as const
export type CallerKind = (typeof callerKinds)[number]

/** Who is calling, as the `postern-context` header says it. */
export interface Caller {
  /** Lower-case UUID; the nil UUID for an operator, or for a part of Postern that acts for no tenant. */
  readonly tenantId: string
  readonly kind: CallerKind
  /** Of the key, the person or the service; not empty. */
  readonly id: string
  /** For people to read: the key's label, the person's name. May be empty. */
  readonly label: string
  /** Named scopes, wildcards already expanded. */
  readonly scopes: readonly string[]
  /** Roles of a person; empty for all others. */
  readonly roles: readonly string[]
}

/** The caller whom a valid signature vouches for, with the assertion that opens the tenant's rows in PostgreSQL. */
export interface TenantContext extends Caller {
  /** The tenant assertion, or `none` in a request that acts for no tenant. */
  readonly assertion: string
}

/** The value of the assertion header in a request that acts for no tenant. */
export const noAssertion = 'none'

/** Bounds the header, so that a context never fills the header section of a request. */
const maxCharacters = 4096

const scopePattern = /^[a-z][a-z_]*:[a-z][a-z_]*$/
const rolePattern = /^[a-z][a-z_]*$/

// Each member in its place, each class without the quote that ends it: linear in the length of the text.
const contextPattern =
  /^tenant="([0-9a-f-]{36})", kind=(api_key|user|operator|service), id="([A-Za-z0-9!'()*\-._~%]+)", label="([A-Za-z0-9!'()*\-._~%]*)", scopes="([a-z_: ]*)"(?:, roles="([a-z_ ]*)")?$/

/**
 * Writes a caller as the value of the `postern-context` header: a dictionary (RFC 9651 §3.2) with its members in a fixed
 * order and one spelling for each caller. Id and label are percent-encoded, so that they can hold any character.
 *
 * Constant for a caller: compute it once and keep it. Throws when the caller could not be read back the same.
 */
export function serializeContext(caller: Caller): string {
  assertCaller(caller)
  const text =
    `tenant="${caller.tenantId}", kind=${caller.kind}, id="${encodeURIComponent(caller.id)}"` +
    `, label="${encodeURIComponent(caller.label)}", scopes="${caller.scopes.join(' ')}"` +
    (caller.kind === 'user' ? `, roles="${caller.roles.join(' ')}"` : '')
  if (text.length > maxCharacters) throw new RangeError(`a context has at most ${maxCharacters} characters`)
  return text
}

/**
 * Reads a `postern-context` header, or gives undefined unless it is exactly what serializeContext writes. It says
 * nothing about who wrote it: only the verifier knows that.
 */
export function parseContext(text: string): Caller | undefined {
  if (text.length > maxCharacters) return undefined
  const [, tenantId, kind, id, label, scopes, roles] = contextPattern.exec(text) ?? []
  if (tenantId === undefined || id === undefined || label === undefined || scopes === undefined) return undefined
  const callerKind = callerKinds.find((known) => known === kind)
  const decodedId = decode(id)
  const decodedLabel = decode(label)
  if (callerKind === undefined || decodedId === undefined || decodedLabel === undefined) return undefined
  if ((roles !== undefined) !== (callerKind === 'user')) return undefined
  const caller: Caller = {
    tenantId,
    kind: callerKind,
    id: decodedId,
    label: decodedLabel,
    scopes: words(scopes),
    roles: words(roles ?? ''),
  }
  return faultOf(caller) === undefined ? caller : undefined
}

function assertCaller(caller: Caller): void {
  const fault = faultOf(caller)
  if (fault !== undefined) throw new TypeError(fault)
}

function faultOf({ tenantId, kind, id, label, scopes, roles }: Caller): string | undefined {
  if (!isTenantId(tenantId)) return 'the tenant id of a caller must be a lower-case UUID'
  if (tenantId === nilTenantId && kind !== 'operator' && kind !== 'service')
    return 'an API key or a person belongs to a tenant'
  if (id === '' || !id.isWellFormed()) return 'the id of a caller must be a well-formed text that is not empty'
  if (!label.isWellFormed()) return 'the label of a caller must be a well-formed text'
  if (!areDistinct(scopes) || !scopes.every((scope) => scopePattern.test(scope)))
    return 'the scopes of a caller must be distinct named scopes'
  if (!areDistinct(roles) || !roles.every((role) => rolePattern.test(role)))
    return 'the roles of a caller must be distinct words'
  if (roles.length > 0 && kind !== 'user') return 'only people have roles'
  return undefined
}

function areDistinct(list: readonly string[]): boolean {
  return new Set(list).size === list.length
}

function words(text: string): readonly string[] {
  return text === '' ? [] : text.split(' ')
}

/** Undoes percent-encoding; undefined unless the text is in the one spelling that encodeURIComponent gives. */
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
