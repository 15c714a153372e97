import { whoami } from '@postern/contracts'
import type { PersonRecord, TenantRecord } from '@postern/contracts/internal'
import { type SignInRefusal, shorten } from '@postern/sign-in'
import type { Exchange } from '../exchange.ts'
import { type Refusal, refusal } from '../refusal.ts'
import type { Usage } from '../usage.ts'
import type { VerifiedToken } from './bearer.ts'
import type { TenantAccess, TenantChoice } from './choose-tenant.ts'
import type { PersonLookup } from './person-lookup.ts'
import { userPrincipal } from './principal.ts'
import { personInactive, personUnknown, unavailable } from './refusal-answer.ts'
import type { TenantLookup } from './tenant-lookup.ts'

export interface DirectoryCheck {
  /** Refuses a person whom the directory of the tenant has deactivated. Use the tenant before the next tick. */
  check(
    exchange: Exchange,
    token: VerifiedToken,
    choice: Extract<TenantChoice, { kind: 'chosen' }>,
  ): Promise<
    | Refusal
    | {
        readonly kind: 'checked'
        readonly tenant: TenantRecord
        readonly access: readonly TenantAccess[]
        readonly person: PersonRecord | undefined
      }
  >
  /** Leaves out tenants whose directory refuses the person. If all do, `refusedIn` has those with the reason of the first. */
  listOpen(
    exchange: Exchange,
    token: VerifiedToken,
    access: readonly TenantAccess[],
  ): Promise<
    | { readonly kind: 'open'; readonly access: readonly TenantAccess[] }
    | { readonly kind: 'refused'; readonly refusal: Refusal; readonly refusedIn: readonly TenantAccess[] }
    | { readonly kind: 'unavailable' }
  >
}

type InDirectory = NonNullable<VerifiedToken['inDirectory']>
type Reason = 'person_inactive' | 'person_unknown'

export function createDirectoryCheck(parts: {
  readonly people: PersonLookup
  readonly tenants: Pick<TenantLookup, 'obtain'>
  readonly usage: Pick<Usage, 'used'>
  readonly onRefused: (exchange: Exchange, refused: SignInRefusal) => void
}): DirectoryCheck {
  const { people, tenants, usage, onRefused } = parts

  function refuse(exchange: Exchange, { match, name }: InDirectory, reason: Reason): Refusal {
    onRefused(exchange, { code: reason, read: [match], found: shorten(name) })
    return refusal(reason, reason === 'person_inactive' ? personInactive : personUnknown)
  }

  const listOpen: DirectoryCheck['listOpen'] = async (exchange, { inDirectory }, access) => {
    if (inDirectory === undefined) return { kind: 'open', access }
    const { with: attribute, name } = inDirectory
    const judged = await Promise.all(
      access.map(async (each) => {
        const known = await people.obtain({ tenantId: each.id, attribute, name })
        return { each, reason: known.kind === 'found' ? reasonOf(known.person, inDirectory) : 'unavailable' }
      }),
    )
    if (judged.some(({ reason }) => reason === 'unavailable')) return { kind: 'unavailable' }
    const withReason = (wanted: Reason | undefined) =>
      judged.flatMap(({ each, reason }) => (reason === wanted ? [each] : []))
    const open = withReason(undefined)
    const first = judged[0]?.reason
    if (open.length > 0 || (first !== 'person_inactive' && first !== 'person_unknown')) {
      return { kind: 'open', access: open }
    }
    return { kind: 'refused', refusal: refuse(exchange, inDirectory, first), refusedIn: withReason(first) }
  }

  return {
    check: async (exchange, token, { tenant, access }) => {
      const { inDirectory } = token
      if (inDirectory === undefined) return { kind: 'checked', tenant, access, person: undefined }
      const { with: attribute, name, isRequired } = inDirectory
      const query = { tenantId: tenant.tenantId, attribute, name }
      const known = await people.obtain(query)
      if (known.kind === 'unavailable') return unavailable
      const { person } = known
      const reason = reasonOf(person, inDirectory)
      if (reason === 'person_inactive') {
        // The person may be known from before the sign-in file named a directory, and is then marked as having left.
        usage.used(userPrincipal(token, tenant, access, person.hash), exchange.address, undefined)
      }
      if (reason !== undefined) return refuse(exchange, inDirectory, reason)
      const listed = exchange.route?.id === whoami.id ? await listOpen(exchange, token, access) : undefined
      if (listed !== undefined && listed.kind !== 'open') return unavailable
      // Its record may have changed during the look-up.
      const again = await tenants.obtain(tenant.tenantId)
      if (again.kind !== 'found' || !people.isCurrent(person)) return unavailable
      exchange.person = { query, isRequired, record: person }
      return { kind: 'checked', tenant: again.tenant, access: listed?.access ?? access, person }
    },
    listOpen,
  }
}

function reasonOf({ status }: PersonRecord, { isRequired }: InDirectory): Reason | undefined {
  if (status === 'inactive') return 'person_inactive'
  return status === 'unknown' && isRequired ? 'person_unknown' : undefined
}
