import type { ReactNode } from 'react'
import { Menu, MenuItem, MenuTrigger } from 'react-aria-components/Menu'
import { Popover } from 'react-aria-components/Popover'
import { Icon, type IconName } from './icon.tsx'

export interface Action {
  readonly id: string
  readonly label: string
  readonly icon: IconName
  readonly isDangerous?: boolean
  readonly isDisabled?: boolean
  readonly run: () => void
}

export function ActionMenu({ label, actions, children }: { label: string; actions: Action[]; children: ReactNode }) {
  return (
    <MenuTrigger>
      {children}
      <Popover className="popover" placement="bottom end">
        <Menu className="menu" aria-label={label}>
          {actions.map((action) => (
            <MenuItem
              key={action.id}
              id={action.id}
              className={`menu-item${action.isDangerous ? ' menu-item-danger' : ''}`}
              textValue={action.label}
              isDisabled={action.isDisabled ?? false}
              onAction={action.run}
            >
              <Icon name={action.icon} size={16} />
              <span>{action.label}</span>
            </MenuItem>
          ))}
        </Menu>
      </Popover>
    </MenuTrigger>
  )
}
