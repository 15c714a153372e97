import { createPortal } from 'react-dom'
import { type ReactNode, createContext, use, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { ApiProblem, request, setCsrfToken, setReadSession, whenSignedOut } from '../api/request.ts'
import { type Session, readSession, signOut } from '../api/session.ts'
import { publicPath } from '../base-path.ts'
import { mustConfirmLeaving } from '../router.tsx'
import { Button, Spinner } from '../ui/button.tsx'
import { Failure } from '../ui/notice.tsx'
import { When } from '../ui/when.tsx'
import { SignInPage, SignedOutPage } from './sign-in-page.tsx'

interface OpenSession {
  readonly session: Session
  /** Registers a shown key, which the end of the session would lose. Returns a function that unregisters it. */
  readonly holdKey: () => () => void
  readonly renew: () => void
  /** Rejects if the server cannot end the session. */
  readonly leave: () => Promise<void>
}

const SessionContext = createContext<OpenSession | undefined>(undefined)

export function useSession(): OpenSession {
  const session = use(SessionContext)
  if (session === undefined) throw new Error('there is no session here')
  return session
}

type State =
  | { readonly kind: 'loading' }
  | { readonly kind: 'signed-in'; readonly session: Session }
  | { readonly kind: 'signed-out'; readonly hadSession: boolean; readonly lostKey: boolean }
  | { readonly kind: 'left'; readonly providerUrl: string | undefined }
  | { readonly kind: 'failed'; readonly error: unknown }

const warningMs = 120_000
const lastWarningMs = 300_000
/** Read interval near the end: other tabs may have extended the session. */
const askEveryMs = 15_000
const longestTimerMs = 2_000_000_000

export function SessionGate({ children }: { readonly children: ReactNode }) {
  const [state, setState] = useState<State>({ kind: 'loading' })
  const [heldKeys, setHeldKeys] = useState(0)
  const held = useRef(0)

  const holdKey = useCallback(() => {
    held.current += 1
    setHeldKeys(held.current)
    return () => {
      held.current -= 1
      setHeldKeys(held.current)
    }
  }, [])

  const owner = useRef<string>(undefined)
  /** The other person, if this one declined a reload. */
  const refused = useRef<string>(undefined)
  /** Returns whether the session still belongs to the person who opened the page. */
  const load = useCallback(async (): Promise<boolean> => {
    const before = owner.current
    try {
      const session = await readSession()
      const known = owner.current
      // Requests must not continue with another session.
      if (before !== undefined && known === undefined) return false
      const next = `${session.tenant.id} ${session.person.id}`
      if (known !== undefined && known !== next) {
        // Neither person may see data of the other. If a key is shown, the person can decline once.
        if (refused.current !== next || !mustConfirmLeaving()) {
          refused.current = next
          location.reload()
        }
        return false
      }
      owner.current = next
      setCsrfToken(session.csrf_token)
      setState({ kind: 'signed-in', session })
      return true
    } catch (error) {
      if (!(error instanceof ApiProblem && error.problem.status === 401)) {
        setState((old) =>
          old.kind === 'signed-in' ? { ...old, session: { ...old.session } } : { kind: 'failed', error },
        )
      }
      return false
    }
  }, [])
  const renew = useCallback(() => void load(), [load])
  const leave = useCallback(async () => {
    const url = new URL(await signOut())
    setCsrfToken('')
    owner.current = undefined
    setState({ kind: 'left', providerUrl: url.href === `${location.origin}${publicPath('/')}` ? undefined : url.href })
  }, [])

  useEffect(() => {
    const end = () => {
      // Removes the tenant's data and cancels pending requests.
      setCsrfToken('')
      owner.current = undefined
      const lostKey = held.current > 0
      setState((old) => {
        if (old.kind === 'signed-out' || old.kind === 'left') return old
        return { kind: 'signed-out', hadSession: old.kind === 'signed-in', lostKey }
      })
    }
    const stop = whenSignedOut(end)
    setReadSession(async () => owner.current !== undefined && (await load()))
    renew()
    const refresh = () => {
      if (document.visibilityState === 'visible' && owner.current !== undefined) renew()
    }
    document.addEventListener('visibilitychange', refresh)
    addEventListener('focus', refresh)
    return () => {
      stop()
      document.removeEventListener('visibilitychange', refresh)
      removeEventListener('focus', refresh)
    }
  }, [load, renew])

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
          <Failure error={state.error} title="The console cannot be loaded" onRetry={renew} />
        </div>
      </main>
    )
  }
  if (state.kind === 'left') return <SignedOutPage providerUrl={state.providerUrl} />
  if (state.kind === 'signed-out') return <SignInPage hadSession={state.hadSession} lostKey={state.lostKey} />
  return (
    <SignedIn session={state.session} holdKey={holdKey} hasKey={heldKeys > 0} renew={renew} leave={leave}>
      {children}
    </SignedIn>
  )
}

type SignedInProps = OpenSession & { readonly hasKey: boolean; readonly children: ReactNode }

function SignedIn({ session, holdKey, hasKey, renew, leave, children }: SignedInProps) {
  const value = useMemo(() => ({ session, holdKey, renew, leave }), [session, holdKey, renew, leave])
  const [isEnding, setEnding] = useState(false)
  const idleEnd = Date.parse(session.idle_expires_at)
  const absoluteEnd = Date.parse(session.expires_at)
  const end = Math.min(idleEnd, absoluteEnd)
  const canStay = absoluteEnd > idleEnd
  const [seen, setSeen] = useState('')
  const warning = `${end} ${hasKey}`

  useEffect(() => {
    const left = end - Date.now()
    const quiet = Math.min(idleEnd - warningMs, absoluteEnd - lastWarningMs) - Date.now()
    const isNear = quiet <= 1000
    setEnding(isNear)
    // Ask the server, not the clock: the session may have been extended.
    const wait = !isNear ? quiet : left > 0 ? Math.min(left + 1000, askEveryMs) : askEveryMs
    const timer = setTimeout(renew, Math.min(Math.max(wait, 1000), longestTimerMs))
    return () => clearTimeout(timer)
  }, [end, idleEnd, absoluteEnd, session, renew])

  const stay = () => {
    // Only API requests of the person extend the session.
    request('/api/v1/whoami').then(renew, renew)
  }

  return (
    <SessionContext value={value}>
      {children}
      {isEnding && (canStay || seen !== warning) ? (
        <SessionWarning
          at={new Date(end)}
          canStay={canStay}
          hasKey={hasKey}
          onStay={stay}
          onSeen={() => setSeen(warning)}
        />
      ) : undefined}
    </SessionContext>
  )
}

interface WarningProps {
  readonly at: Date
  readonly canStay: boolean
  readonly hasKey: boolean
  readonly onStay: () => void
  readonly onSeen: () => void
}

/** Drawn above dialogs, which would otherwise hide it from keyboards and screen readers. */
function SessionWarning({ at, canStay, hasKey, onStay, onSeen }: WarningProps) {
  const before = useRef<EventTarget | null>(null)

  useEffect(
    () => () => {
      // Escape closes a dialog only if the focus is inside it.
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
      <div>
        <p>
          {canStay ? 'You will be signed out soon, at ' : 'You will have to sign in again soon, at '}
          <When at={at.toISOString()} as="time" />.
        </p>
        {hasKey ? (
          <p>
            <strong>Copy the key before that:</strong> it cannot be shown again.
          </p>
        ) : canStay ? undefined : (
          <p>Finish and save what you are doing.</p>
        )}
      </div>
      {canStay ? (
        <Button size="small" look="primary" onPress={onStay}>
          Stay signed in
        </Button>
      ) : (
        <Button size="small" onPress={onSeen}>
          Hide
        </Button>
      )}
    </div>,
    document.body,
  )
}
