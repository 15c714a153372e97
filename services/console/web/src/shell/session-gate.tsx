import { createPortal } from 'react-dom'
import { type ReactNode, createContext, use, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { ApiProblem, request, setCsrfToken, whenSignedOut } from '../api/request.ts'
import { type Session, readSession } from '../api/session.ts'
import { Button, Spinner } from '../ui/button.tsx'
import { Failure } from '../ui/notice.tsx'
import { SignInPage } from './sign-in-page.tsx'

interface OpenSession {
  readonly session: Session
  /** Asks the server what the session is now. */
  readonly renew: () => void
}

const SessionContext = createContext<OpenSession | undefined>(undefined)

/** The session of who is signed in; only within `SessionGate`. */
export function useSession(): OpenSession {
  const session = use(SessionContext)
  if (session === undefined) throw new Error('there is no session here')
  return session
}

type State =
  | { readonly kind: 'loading' }
  | { readonly kind: 'signed-in'; readonly session: Session }
  | { readonly kind: 'signed-out'; readonly hadSession: boolean }
  | { readonly kind: 'failed'; readonly error: unknown }

/** Warns this long before the session ends for want of use. */
const warningMs = 120_000
const longestTimerMs = 2_000_000_000

/** Shows its children to who is signed in, and the way to sign in to everybody else. */
export function SessionGate({ children }: { readonly children: ReactNode }) {
  const [state, setState] = useState<State>({ kind: 'loading' })

  const load = useCallback(() => {
    readSession().then(
      (session) => {
        setCsrfToken(session.csrf_token)
        setState({ kind: 'signed-in', session })
      },
      (error: unknown) => {
        if (error instanceof ApiProblem && error.problem.status === 401) return
        // A renewal that did not get through takes nothing away: the next answer tells.
        setState((old) => (old.kind === 'signed-in' ? old : { kind: 'failed', error }))
      },
    )
  }, [])

  useEffect(() => {
    const end = () =>
      setState((old) => {
        // Nothing of the tenant stays on the screen, and nothing that was about to be sent is sent.
        setCsrfToken('')
        return {
          kind: 'signed-out',
          hadSession: old.kind === 'signed-in' || (old.kind === 'signed-out' && old.hadSession),
        }
      })
    const stop = whenSignedOut(end)
    load()
    return stop
  }, [load])

  if (state.kind === 'loading') {
    return (
      <div className="whole-page">
        <Spinner />
        <span className="for-listeners" role="status">
          Loading
        </span>
      </div>
    )
  }
  if (state.kind === 'failed') {
    return (
      <main className="whole-page">
        <div className="whole-page-box">
          <h1 className="for-listeners">Postern</h1>
          <Failure error={state.error} title="The console cannot be loaded" onRetry={load} />
        </div>
      </main>
    )
  }
  if (state.kind === 'signed-out') return <SignInPage hadSession={state.hadSession} />
  return (
    <Signed session={state.session} renew={load}>
      {children}
    </Signed>
  )
}

function Signed({ session, renew, children }: OpenSession & { readonly children: ReactNode }) {
  const value = useMemo(() => ({ session, renew }), [session, renew])
  const [isEnding, setEnding] = useState(false)
  const idleEnd = Date.parse(session.idle_expires_at)
  const absoluteEnd = Date.parse(session.expires_at)
  const end = Math.min(idleEnd, absoluteEnd)

  useEffect(() => {
    const left = end - Date.now()
    const isNear = left <= warningMs + 1000
    setEnding(isNear)
    // Whenever the end seems near the server is asked, not the clock: what was done since may have moved it.
    const timer = setTimeout(renew, Math.min(Math.max(isNear ? left + 1000 : left - warningMs, 1000), longestTimerMs))
    return () => clearTimeout(timer)
  }, [end, session, renew])

  const stay = () => {
    // Only what is done through the API is use of the session; to ask about it is none.
    request('/api/v1/whoami').then(renew, renew)
  }

  return (
    <SessionContext value={value}>
      {children}
      {isEnding ? <SessionWarning canStay={absoluteEnd > idleEnd} onStay={stay} /> : undefined}
    </SessionContext>
  )
}

/** Above everything, also above a dialog, which takes what is not marked so away from keyboard, pointer and listeners. */
function SessionWarning({ canStay, onStay }: { readonly canStay: boolean; readonly onStay: () => void }) {
  const before = useRef<EventTarget | null>(null)

  useEffect(
    () => () => {
      // To where the keyboard was: in a dialog Escape would do nothing from outside of it.
      if (before.current instanceof HTMLElement) before.current.focus()
    },
    [],
  )

  return createPortal(
    <div
      className="session-warning"
      role="alert"
      data-react-aria-top-layer="true"
      onFocus={({ currentTarget, relatedTarget }) => {
        if (!currentTarget.contains(relatedTarget)) before.current = relatedTarget
      }}
    >
      <p>{canStay ? 'You will be signed out soon.' : 'You will have to sign in again soon.'}</p>
      {canStay ? (
        <Button size="small" look="primary" onPress={onStay}>
          Stay signed in
        </Button>
      ) : undefined}
    </div>,
    document.body,
  )
}
