import { type ReactNode, useEffect, useState } from 'react'
import { Dialog } from 'react-aria-components/Dialog'
import { Modal, ModalOverlay } from 'react-aria-components/Modal'
import { Link, usePath } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'
import { AccountMenu } from './account-menu.tsx'
import { Brand } from './brand.tsx'
import { useSession } from './session-gate.tsx'

interface Entry {
  readonly to: string
  readonly label: string
  readonly icon: IconName
}

const groups: readonly { readonly title: string; readonly entries: readonly Entry[] }[] = [
  {
    title: 'Settings',
    entries: [
      { to: '/settings/api-keys', label: 'API keys', icon: 'key' },
      { to: '/settings/key-health', label: 'Key health', icon: 'warning' },
      { to: '/settings/people', label: 'People and roles', icon: 'people' },
      { to: '/settings/policy', label: 'Key policy', icon: 'shield' },
      { to: '/settings/audit', label: 'Audit', icon: 'eye' },
      { to: '/settings/webhooks', label: 'Webhooks', icon: 'globe' },
    ],
  },
  {
    title: 'Data',
    entries: [
      { to: '/connectors', label: 'Connectors', icon: 'sync' },
      { to: '/verify', label: 'Verify a receipt', icon: 'receipt' },
    ],
  },
]

export function Shell({ children }: { readonly children: ReactNode }) {
  const [isMenuOpen, setMenuOpen] = useState(false)
  const path = usePath()
  useEffect(() => setMenuOpen(false), [path])
  return (
    <div className="shell">
      <a className="skip-link" href="#page-title">
        Skip to content
      </a>
      <header className="top-bar">
        <Button look="quiet" icon="menu" aria-label="Menu" onPress={() => setMenuOpen(true)} />
        <span className="top-bar-name">
          <Brand size={26} />
          Postern
        </span>
        <AccountMenu isCompact />
      </header>
      <aside className="sidebar">
        <Side />
      </aside>
      <main className="content">{children}</main>
      <ModalOverlay className="overlay overlay-drawer" isDismissable isOpen={isMenuOpen} onOpenChange={setMenuOpen}>
        <Modal className="drawer">
          <Dialog className="drawer-dialog" aria-label="Menu">
            <Side onClose={() => setMenuOpen(false)} />
          </Dialog>
        </Modal>
      </ModalOverlay>
    </div>
  )
}

function Side({ onClose }: { readonly onClose?: () => void }) {
  const { session } = useSession()
  const path = usePath()
  const open = path === '/' || path === '/settings' ? '/settings/api-keys' : path
  return (
    <>
      <div className="side-head">
        <Brand />
        <div className="side-names">
          <span className="side-product">Postern</span>
          <span className="side-tenant" title={session.tenant.name}>
            {session.tenant.name}
          </span>
        </div>
        {onClose === undefined ? undefined : (
          <Button look="quiet" icon="close" aria-label="Close the menu" onPress={onClose} />
        )}
      </div>
      <nav className="nav" aria-label="Pages">
        {groups.map((group) => (
          <div key={group.title}>
            <p className="nav-title">{group.title}</p>
            <ul>
              {group.entries.map((entry) => {
                const isOpen = open === entry.to || open.startsWith(`${entry.to}/`)
                return (
                  <li key={entry.to}>
                    <Link
                      to={entry.to}
                      className="nav-link"
                      aria-current={open === entry.to ? 'page' : isOpen ? 'true' : undefined}
                      {...(onClose === undefined ? {} : { onClick: onClose })}
                    >
                      <Icon name={entry.icon} />
                      {entry.label}
                    </Link>
                  </li>
                )
              })}
            </ul>
          </div>
        ))}
      </nav>
      <div>
        <AccountMenu />
      </div>
    </>
  )
}
