import { type ReactNode, useEffect } from 'react'
import { Link } from '../router.tsx'
import { takeTitleFocus } from './focus-return.ts'
import { Icon, type IconName } from './icon.tsx'

interface Props {
  readonly title: string
  readonly above?: ReactNode
  readonly lead?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
  readonly heading?: ReactNode
}

export function Page({ title, above, lead, actions, children, heading }: Props) {
  useEffect(() => {
    document.title = `${title} · Postern`
  }, [title])
  useEffect(takeTitleFocus, [])
  return (
    <div className="page">
      {above}
      <header className="page-header">
        <div className="page-words">
          <h1 id="page-title" tabIndex={-1}>
            {heading ?? title}
          </h1>
          {lead === undefined ? undefined : <div className="page-lead">{lead}</div>}
        </div>
        {actions === undefined ? undefined : <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

export function BackLink({ to, label }: { readonly to: string; readonly label: string }) {
  return (
    <Link to={to} className="way-back">
      <Icon name="back" size={16} />
      {label}
    </Link>
  )
}

interface EmptyProps {
  readonly icon: IconName
  readonly title: string
  readonly children?: ReactNode
  readonly action?: ReactNode
}

export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <div className="empty">
      <span className="empty-icon">
        <Icon name={icon} size={26} />
      </span>
      <h2>{title}</h2>
      {children === undefined ? undefined : <div className="empty-text">{children}</div>}
      {action}
    </div>
  )
}
