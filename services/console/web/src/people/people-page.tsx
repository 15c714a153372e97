import { type Role, roleScopes, roles } from '@postern/contracts'
import { useSession } from '../shell/session-gate.tsx'
import { Badge } from '../ui/badge.tsx'
import { Icon } from '../ui/icon.tsx'
import { Notice } from '../ui/notice.tsx'
import { Page } from '../ui/page.tsx'
import { Members } from './members.tsx'

const roleDescriptions: Readonly<Record<Role, string>> = {
  viewer: 'Reads the audit universe and findings.',
  auditor: 'Reads, documents and follows up findings, and uploads evidence.',
  admin: 'All of the above, and manages connectors and API keys.',
}

const abilities: readonly { readonly label: string; readonly can: (role: Role) => boolean }[] = [
  { label: 'Read the audit universe and findings', can: () => true },
  {
    label: 'Document findings, upload evidence',
    can: (role) => roleScopes[role].some((scope) => ['write:*', '*'].includes(scope)),
  },
  { label: 'Manage connectors', can: (role) => roleScopes[role].some((scope) => ['admin:*', '*'].includes(scope)) },
  { label: 'Generate, rotate and revoke API keys', can: (role) => role === 'admin' },
]

export function PeoplePage() {
  const { session } = useSession()
  return (
    <Page
      title="People and roles"
      lead="People sign in with your organization’s own accounts. Their roles come from there, too."
    >
      <section className="card" aria-labelledby="you-title">
        <h2 id="you-title">You</h2>
        <dl className="facts facts-row facts-wide">
          <div>
            <dt>Name</dt>
            <dd>{session.person.name}</dd>
          </div>
          <div>
            <dt>E-mail</dt>
            <dd>
              <Address email={session.person.email} />
            </dd>
          </div>
          <div>
            <dt>Organization</dt>
            <dd>{session.tenant.name}</dd>
          </div>
          <div>
            <dt>Roles</dt>
            <dd className="badges">
              {session.roles.length === 0 ? <span className="faint">None</span> : undefined}
              {session.roles.map((role) => (
                <Badge key={role} tone="info">
                  {role}
                </Badge>
              ))}
            </dd>
          </div>
        </dl>
      </section>
      <section className="card" aria-labelledby="roles-title">
        <h2 id="roles-title">What each role can do</h2>
        <div className="table-scroll" role="region" aria-label="Roles in a table" tabIndex={0}>
          <table className="plain-table role-table">
            <thead>
              <tr>
                <th scope="col">Can</th>
                {roles.map((role) => (
                  <th key={role} scope="col" className={session.roles.includes(role) ? 'role-own' : undefined}>
                    {role}
                    {session.roles.includes(role) ? <span className="second-line">your role</span> : undefined}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {abilities.map(({ label, can }) => (
                <tr key={label}>
                  <th scope="row">{label}</th>
                  {roles.map((role) => (
                    <td key={role}>
                      {can(role) ? (
                        <span className="yes">
                          <Icon name="check" size={16} />
                          <span className="for-listeners">yes</span>
                        </span>
                      ) : (
                        <span className="faint">
                          <span aria-hidden="true">–</span>
                          <span className="for-listeners">no</span>
                        </span>
                      )}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <ul className="role-words">
          {roles.map((role) => (
            <li key={role}>
              <strong>{role}</strong> {roleDescriptions[role]}
            </li>
          ))}
        </ul>
      </section>
      <Notice tone="info" title="To change a role">
        Change the person’s group or role at your identity provider. It takes effect the next time that they sign in.
      </Notice>
      {session.roles.includes('admin') ? <Members ownId={session.person.id} /> : undefined}
    </Page>
  )
}

function Address({ email }: { readonly email: string | null }) {
  if (email === null) return <span className="faint">Unknown</span>
  const at = Math.max(email.lastIndexOf('@'), 0)
  return (
    <>
      {email.slice(0, at)}
      <wbr />
      {email.slice(at)}
    </>
  )
}
