import { useSession } from '../shell/session-gate.tsx'
import { Empty, Page } from '../ui/page.tsx'

/** What stands in place of a page that only administrators may see. */
export function AdminsOnly({ title }: { readonly title: string }) {
  const { session } = useSession()
  return (
    <Page title={title}>
      <Empty icon="shield" title="Only administrators manage API keys">
        You are signed in to {session.tenant.name} as {session.roles.join(' and ') || 'a person without a role'}. Ask an
        administrator of your organization for a key, or for the role.
      </Empty>
    </Page>
  )
}
