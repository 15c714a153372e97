import { roles } from '@postern/contracts'
import { type Member, listMembers } from '../api/tenant.ts'
import { Badge } from '../ui/badge.tsx'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useNow } from '../ui/use-now.ts'
import { useResource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

const tones = { admin: 'success', auditor: 'info', viewer: 'neutral' } as const
const names = new Intl.Collator(undefined, { sensitivity: 'base', numeric: true })

export function Members({ ownId }: { readonly ownId: string }) {
  const { resource, reload } = useResource<readonly Member[]>(listMembers)
  const now = useNow()
  return (
    <section className="card" aria-labelledby="members-title">
      <div className="card-head">
        <h2 id="members-title">People</h2>
        {resource.state === 'ready' ? <span className="faint">{count(resource.value.length)}</span> : undefined}
      </div>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The people cannot be shown" onRetry={reload} />
      ) : resource.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="70%" />
          <Skeleton width="60%" />
          <Skeleton width="65%" />
        </div>
      ) : resource.value.length === 0 ? (
        <p className="faint">No people yet. A person appears here within a minute of signing in.</p>
      ) : (
        <table className="plain-table stacking-table">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Roles</th>
              <th scope="col">Last seen</th>
              <th scope="col">First seen</th>
            </tr>
          </thead>
          <tbody>
            {resource.value
              .toSorted((one, other) => names.compare(one.name, other.name))
              .map((member) => (
                <tr key={member.id}>
                  <th scope="row">
                    <span className="member">
                      <span className="member-name">
                        {member.name}
                        {member.id === ownId ? <span className="faint"> (you)</span> : undefined}
                      </span>
                      <span className="second-line">{member.id}</span>
                    </span>
                  </th>
                  <td data-title="Roles">
                    <span className="badges">
                      {member.roles.length === 0 ? <span className="faint">None</span> : undefined}
                      {roles.toReversed().flatMap((role) =>
                        member.roles.includes(role)
                          ? [
                              <Badge key={role} tone={tones[role]}>
                                {role}
                              </Badge>,
                            ]
                          : [],
                      )}
                    </span>
                  </td>
                  <td data-title="Last seen">
                    <When at={member.last_seen_at} as="distance" now={now} />
                  </td>
                  <td data-title="First seen">
                    <When at={member.first_seen_at} as="day" />
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      )}
      <p className="fine-print">People who have signed in, with their roles at the last sign-in.</p>
    </section>
  )
}

function count(people: number): string {
  return people === 1 ? '1 person' : `${people.toLocaleString()} people`
}
