import { type ReactNode, useEffect, useRef } from 'react'
import { isRefusal } from '../api/attempt.ts'
import { ApiProblem, NoAnswerError } from '../api/request.ts'
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
  readonly isNews?: boolean
}

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
  readonly unsure?: string
  readonly onRetry?: () => void
}

export function Failure({ error, title, unsure, onRetry }: FailureProps) {
  const isUnsure = unsure !== undefined && !isRefusal(error)
  const detail = error instanceof ApiProblem || error instanceof NoAnswerError ? error.message : 'Something went wrong.'
  const fieldErrors = error instanceof ApiProblem ? (error.problem.errors ?? []) : []
  const isInList = repeatsErrors(detail, fieldErrors)
  const errors = isInList ? fieldErrors : fieldErrors.filter((each) => !detail.includes(each.detail))
  const place = useRef<HTMLDivElement>(null)
  const isAnswer = onRetry === undefined
  useEffect(() => {
    if (isAnswer) place.current?.scrollIntoView({ block: 'nearest' })
  }, [isAnswer])
  const request = error instanceof ApiProblem ? error.problem.instance : undefined
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

type ProblemErrors = NonNullable<ApiProblem['problem']['errors']>

/** Whether the detail only repeats the errors of the fields, by their names in the API. */
function repeatsErrors(detail: string, errors: ProblemErrors): boolean {
  const [first] = errors
  if (first === undefined || (first.pointer ?? first.parameter ?? '') === '' || !detail.startsWith('`')) return false
  const statement = withoutEnd(detail)
  return statement.endsWith('in `errors`') || errors.some((each) => statement.endsWith(withoutEnd(each.detail)))
}

function withoutEnd(sentence: string): string {
  return sentence.replace(/[.?]$/, '')
}

/** `/allowed_addresses/0` loses its index; connector settings keep their path. */
function fieldOf(pointer: string): string {
  const [first = '', ...rest] = pointer.replace(/^\//, '').split('/')
  const words = (first === 'config' ? rest.join(' ') : first).replaceAll('_', ' ')
  return words === '' ? '' : `${words.charAt(0).toUpperCase()}${words.slice(1)}:`
}
