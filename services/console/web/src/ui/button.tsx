import type { ReactNode } from 'react'
import { Button as AriaButton, type ButtonProps } from 'react-aria-components/Button'
import { Icon, type IconName } from './icon.tsx'

interface Props extends Omit<ButtonProps, 'children' | 'className'> {
  readonly children?: ReactNode
  readonly look?: 'primary' | 'plain' | 'quiet' | 'danger'
  readonly size?: 'small' | 'usual'
  readonly icon?: IconName
  /** Shows that the work has begun; a second press does nothing. */
  readonly isBusy?: boolean
}

/** A button of the console. Without text it needs an `aria-label`. */
export function Button({ children, look = 'plain', size = 'usual', icon, isBusy = false, ...rest }: Props) {
  const kind = `button button-${look} button-${size}${children === undefined ? ' button-icon' : ''}`
  return (
    <AriaButton className={kind} isPending={isBusy} {...rest}>
      {isBusy ? <Spinner /> : icon === undefined ? undefined : <Icon name={icon} size={size === 'small' ? 16 : 18} />}
      {children === undefined ? undefined : <span>{children}</span>}
    </AriaButton>
  )
}

/** A turning ring; the words beside it say what is awaited. */
export function Spinner() {
  return <span className="spinner" aria-hidden="true" />
}
