import { useRef } from 'react'
import { useSession } from '../shell/session-gate.tsx'
import { Empty, Page } from '../ui/page.tsx'

/** Whether the person is an administrator, now and since the page was opened. */
export function useAdmin(): { readonly isAdmin: boolean; readonly wasAdmin: boolean } {
  const { session } = useSession()
  const isAdmin = session.roles.includes('admin')
  const was = useRef(isAdmin)
  if (isAdmin) was.current = true
  return { isAdmin, wasAdmin: was.current }
}

export function AdminsOnly({ title, what = 'API keys' }: { readonly title: string; readonly what?: string }) {
  const { session } = useSession()
  return (
    <Page title={title}>
      <Empty icon="shield" title={`Only administrators can manage ${what}`}>
        You are signed in to {session.tenant.name} as {session.roles.join(' and ') || 'a person without a role'}. Ask an
        administrator of your organization for {what === 'API keys' ? 'a key' : 'help'}, or for the role.
      </Empty>
    </Page>
  )
}
