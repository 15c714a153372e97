import type { ReactNode } from 'react'
import { Button as AriaButton, type ButtonProps } from 'react-aria-components/Button'
import { Icon, type IconName } from './icon.tsx'

interface Props extends Omit<ButtonProps, 'children' | 'className'> {
  readonly children?: ReactNode
  readonly look?: 'primary' | 'plain' | 'quiet' | 'danger'
  readonly size?: 'small' | 'usual'
  readonly icon?: IconName
  /** Shows that the work has begun; a second press does nothing. */
  readonly isBusy?: boolean | undefined
}

/** A button of the console. Without text it needs an `aria-label`. */
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

/** Not `isPending` of React Aria: it announces by an image whose name is the button, which is gone when the work is done. */
function ignore(): void {}

/** A turning ring; the words beside it say what is awaited. */
export function Spinner() {
  return <span className="spinner" aria-hidden="true" />
}
