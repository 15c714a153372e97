import { useEffect } from 'react'
import { signInUrl } from '../api/session.ts'
import { Notice } from '../ui/notice.tsx'
import { Brand } from './brand.tsx'

interface Props {
  readonly hadSession: boolean
  readonly lostKey: boolean
}

export function SignInPage({ hadSession, lostKey }: Props) {
  useEffect(() => {
    document.title = 'Sign in · Postern'
  }, [])
  return (
    <main className="whole-page">
      <div className="sign-in">
        <Brand size={44} />
        <h1>{hadSession ? 'Your session has ended' : 'Sign in to Postern'}</h1>
        <p>
          {hadSession
            ? 'For security, sessions end after some time. No data stays on this device.'
            : 'Create, monitor and revoke the API keys of programs that use your audit data.'}
        </p>
        {lostKey ? (
          <Notice tone="warning" title="The key that was shown had not been copied">
            The key works but cannot be shown again. Rotate or revoke it after you have signed in.
          </Notice>
        ) : undefined}
        <a className="button button-primary button-usual sign-in-button" href={signInUrl()}>
          <span>{hadSession ? 'Sign in again' : 'Continue with your organization'}</span>
        </a>
        <p className="fine-print">
          You sign in with your organization’s own account. Postern never sees your password.
        </p>
      </div>
    </main>
  )
}

export function SignedOutPage({ providerUrl }: { readonly providerUrl: string | undefined }) {
  useEffect(() => {
    document.title = 'Signed out · Postern'
    document.getElementById('page-title')?.focus()
  }, [])
  return (
    <main className="whole-page">
      <div className="sign-in">
        <Brand size={44} />
        <h1 id="page-title" tabIndex={-1}>
          You are signed out
        </h1>
        <p>Your session has ended. No data stays on this device.</p>
        <a className="button button-primary button-usual sign-in-button" href={signInUrl()}>
          <span>Sign in again</span>
        </a>
        {providerUrl === undefined ? undefined : (
          <p className="fine-print">
            Your organization’s sign-in page may still know you.{' '}
            <a className="text-link" href={providerUrl}>
              Sign out there too
            </a>{' '}
            if other people use this device.
          </p>
        )}
      </div>
    </main>
  )
}
