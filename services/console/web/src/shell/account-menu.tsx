import { useState } from 'react'
import { Button } from 'react-aria-components/Button'
import { Header } from 'react-aria-components/Header'
import { Menu, MenuItem, MenuSection, MenuTrigger } from 'react-aria-components/Menu'
import { Popover } from 'react-aria-components/Popover'
import { switchUrl } from '../api/session.ts'
import { publicPath } from '../base-path.ts'
import { Icon } from '../ui/icon.tsx'
import { useSession } from './session-gate.tsx'
import { type Theme, useTheme } from './theme.ts'

const themes = [
  { id: 'system', label: 'System', icon: 'system' },
  { id: 'light', label: 'Light', icon: 'sun' },
  { id: 'dark', label: 'Dark', icon: 'moon' },
] as const satisfies readonly { id: Theme; label: string; icon: string }[]

export function AccountMenu({ isCompact = false }: { readonly isCompact?: boolean }) {
  const { session, leave } = useSession()
  const [theme, setTheme] = useTheme()
  const [isLeaving, setLeaving] = useState(false)
  const { name, email } = session.person

  const signOut = async () => {
    setLeaving(true)
    try {
      await leave()
    } catch {
      location.assign(publicPath('/'))
    }
  }

  return (
    <MenuTrigger>
      <Button className={isCompact ? 'account account-compact' : 'account'} isDisabled={isLeaving}>
        <span className="for-listeners">{isCompact ? `Account of ${name}` : 'Account of '}</span>
        <span className="avatar" aria-hidden="true">
          {initials(name)}
        </span>
        {isCompact ? undefined : (
          <>
            <span className="account-names">
              <span className="account-name">{name}</span>
              <span className="account-role">{session.roles.join(', ') || 'no role'}</span>
            </span>
            <Icon name="up" size={16} />
          </>
        )}
      </Button>
      <Popover className="popover" placement={isCompact ? 'bottom end' : 'top start'}>
        <Menu className="menu" aria-label="Account">
          <MenuSection
            selectionMode="single"
            disallowEmptySelection
            selectedKeys={[theme]}
            onSelectionChange={(keys) => {
              const next = themes.find(({ id }) => keys !== 'all' && keys.has(id))
              if (next !== undefined) setTheme(next.id)
            }}
          >
            <Header className="menu-title">
              <span className="account-name">{name}</span>
              {email === null || email === '' ? undefined : <span>{email}</span>}
            </Header>
            {themes.map(({ id, label, icon }) => (
              <MenuItem key={id} id={id} className="menu-item" textValue={label}>
                {({ isSelected }) => (
                  <>
                    <Icon name={icon} size={16} />
                    <span>{label}</span>
                    {isSelected ? <Icon name="check" size={16} /> : undefined}
                  </>
                )}
              </MenuItem>
            ))}
          </MenuSection>
          {session.can_switch === true ? (
            <MenuItem
              id="switch"
              className="menu-item menu-item-apart"
              textValue="Switch organization"
              onAction={() => location.assign(switchUrl())}
            >
              <Icon name="sync" size={16} />
              <span>Switch organization</span>
            </MenuItem>
          ) : undefined}
          <MenuItem
            id="sign-out"
            className="menu-item menu-item-apart"
            textValue="Sign out"
            onAction={() => {
              void signOut()
            }}
          >
            <Icon name="out" size={16} />
            <span>Sign out</span>
          </MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  )
}

function initials(name: string): string {
  const words = name.trim().split(/\s+/)
  const letters = words.length > 1 ? [words[0], words.at(-1)] : [words[0]]
  return letters
    .map((word) => [...(word ?? '')][0] ?? '')
    .join('')
    .toUpperCase()
}
