import type { ReactNode } from 'react'
import { Button as AriaButton, type ButtonProps } from 'react-aria-components/Button'
import { Icon, type IconName } from './icon.tsx'

interface Props extends Omit<ButtonProps, 'children' | 'className'> {
  readonly children?: ReactNode
  readonly look?: 'primary' | 'plain' | 'quiet' | 'danger'
  readonly size?: 'small' | 'usual'
  readonly icon?: IconName
  readonly isBusy?: boolean | undefined
}

/** Without text it needs an `aria-label`. */
export function Button({ children, look = 'plain', size = 'usual', icon, isBusy, ...rest }: Props) {
  const kind = `button button-${look} button-${size}${children === undefined ? ' button-icon' : ''}`
  return (
    <AriaButton className={kind} {...rest} {...(isBusy ? { onPress: ignore } : {})}>
      {isBusy ? <Spinner /> : icon === undefined ? undefined : <Icon name={icon} size={size === 'small' ? 16 : 18} />}
      {children === undefined ? undefined : <span>{children}</span>}
      {isBusy === undefined ? undefined : (
        <span className="for-listeners" role="status">
          {isBusy ? 'Working' : ''}
        </span>
      )}
    </AriaButton>
  )
}

/** React Aria's `isPending` announces an image whose name disappears with the work. */
function ignore(): void {}

export function Spinner() {
  return <span className="spinner" aria-hidden="true" />
}
