import { type ReactNode, useEffect, useRef } from 'react'
import { isRefusal } from '../api/attempt.ts'
import { ApiProblem, NoAnswer } from '../api/request.ts'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icon.tsx'

const icons = { info: 'info', warning: 'warning', danger: 'warning', success: 'check' } as const satisfies Record<
  string,
  IconName
>

interface Props {
  readonly tone: keyof typeof icons
  readonly title?: ReactNode
  readonly children?: ReactNode
  readonly action?: ReactNode
  /** Read out at once: for what has just happened. */
  readonly isNews?: boolean
}

/** A coloured note within a page. */
export function Notice({ tone, title, children, action, isNews = false }: Props) {
  return (
    <div className={`notice notice-${tone}`} role={isNews ? (tone === 'danger' ? 'alert' : 'status') : undefined}>
      <Icon name={icons[tone]} />
      <div className="notice-text">
        {title === undefined ? undefined : <p className="notice-title">{title}</p>}
        {children === undefined ? undefined : <div>{children}</div>}
      </div>
      {action === undefined ? undefined : <div className="notice-action">{action}</div>}
    </div>
  )
}

interface FailureProps {
  readonly error: unknown
  readonly title: string
  /** Of a change: the title where no answer says whether it was made. To try again is safe then: nothing is done twice. */
  readonly unsure?: string
  readonly onRetry?: () => void
}

/** What went wrong, for a person: what to mend and, for who asks support, the id of the request. */
export function Failure({ error, title, unsure, onRetry }: FailureProps) {
  const isUnsure = unsure !== undefined && !isRefusal(error)
  const detail = error instanceof ApiProblem || error instanceof NoAnswer ? error.message : 'Something went wrong.'
  const told = error instanceof ApiProblem ? (error.problem.errors ?? []) : []
  // What the detail has said already is not said again.
  const errors = told.filter((each) => !detail.includes(each.detail))
  const place = useRef<HTMLDivElement>(null)
  const isAnswer = onRetry === undefined
  useEffect(() => {
    // Whoever has pressed a button at the end of a form is shown what came of it. What a page could not load moves nothing.
    if (isAnswer) place.current?.scrollIntoView({ block: 'nearest' })
  }, [isAnswer])
  const request = error instanceof ApiProblem ? error.problem.instance : undefined
  // Whoever reads the page has the list of them below, and no member of a document.
  const isInList = errors.length > 0 && detail.includes('`errors`')
  return (
    <div ref={place} className="failure">
      <Notice
        tone="danger"
        title={isUnsure ? unsure : title}
        isNews
        action={
          onRetry === undefined ? undefined : (
            <Button size="small" onPress={onRetry}>
              Try again
            </Button>
          )
        }
      >
        {isInList ? undefined : <p>{detail}</p>}
        {isUnsure ? <p>Try again: nothing is done twice.</p> : undefined}
        {errors.length === 0 ? undefined : (
          <ul>
            {errors.map((each) => (
              <li key={`${each.pointer ?? each.parameter ?? ''} ${each.code}`}>
                {fieldOf(each.pointer ?? each.parameter ?? '')} {each.detail}
              </li>
            ))}
          </ul>
        )}
        {request === undefined ? undefined : <p className="fine-print">Request {request}</p>}
      </Notice>
    </div>
  )
}

/** `/allowed_addresses/0` as a person would say it; of what is set of a connector (`/config/auth/username`), all of it. */
function fieldOf(pointer: string): string {
  const [first = '', ...rest] = pointer.replace(/^\//, '').split('/')
  const words = (first === 'config' ? rest.join(' ') : first).replaceAll('_', ' ')
  return words === '' ? '' : `${words.charAt(0).toUpperCase()}${words.slice(1)}:`
}
