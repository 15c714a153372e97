import { type ReactNode, useEffect, useState } from 'react'
import { publicPath } from '../base-path.ts'
import { confirmLeaving } from '../router.tsx'
import { useSession } from '../shell/session-gate.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Notice } from '../ui/notice.tsx'
import { Select } from '../ui/select.tsx'
import { type SnippetKind, snippetHelp, snippetKinds, snippetNames, snippetOf } from './snippets.ts'

const choices = snippetKinds.map((kind) => ({ value: kind, label: snippetNames[kind] }))

interface Props {
  readonly title: string
  /** Only in the dialog's state: never in the URL, storage or logs. */
  readonly value: string
  readonly children?: ReactNode
  readonly onDone: () => void
}

/** Closing needs a confirmation that the key was stored. */
export function KeyReveal({ title, value, children, onDone }: Props) {
  const { session, holdKey } = useSession()
  const [wasCopied, setCopied] = useState(false)
  const [isAsking, setAsking] = useState(false)
  const [kind, setKind] = useState<SnippetKind>('curl')
  const snippet = snippetOf(kind, session.api_url ?? `${location.origin}${publicPath('')}`)

  // A copied key needs no warning before the session ends.
  useEffect(() => (wasCopied ? undefined : holdKey()), [wasCopied, holdKey])

  useEffect(() => {
    const look = () => {
      if (getSelection()?.toString().includes(value)) setCopied(true)
    }
    document.addEventListener('copy', look)
    return () => document.removeEventListener('copy', look)
  }, [value])

  useEffect(() => confirmLeaving(() => setAsking(true)), [])

  return (
    <>
      <Dialog
        title={title}
        isOpen
        size="large"
        onClose={() => setAsking(true)}
        footer={
          <Button look="primary" onPress={() => setAsking(true)}>
            Done
          </Button>
        }
      >
        <Notice tone="warning" title="This key is shown only once">
          Postern stores only a fingerprint. Copy the key now into the secret store of the program that will use it,
          never into a chat, a ticket or source code.
        </Notice>
        <section className="reveal" aria-labelledby="reveal-key">
          <h3 id="reveal-key">Key</h3>
          <div className="secret">
            <code className="secret-text" translate="no" data-secret="">
              {value}
            </code>
            <CopyButton text={value} label="Copy key" look="primary" onCopied={() => setCopied(true)} />
          </div>
        </section>
        <section className="reveal" aria-labelledby="reveal-snippet">
          <div className="reveal-head">
            <h3 id="reveal-snippet">Try it</h3>
            <Select label="Program" isLabelHidden choices={choices} value={kind} onChange={setKind} />
          </div>
          <p className="help">{snippetHelp[kind]} The response shows the key’s scopes.</p>
          <div className="secret secret-curl">
            <pre className="secret-text" translate="no" tabIndex={0} aria-label="A program that uses the key">
              {snippet}
            </pre>
            <CopyButton text={snippet} label="Copy program" />
          </div>
        </section>
        {children}
      </Dialog>
      <Dialog
        title={wasCopied ? 'Is the key stored safely?' : 'You have not copied the key'}
        isOpen={isAsking}
        isQuestion
        onClose={() => setAsking(false)}
        footer={
          <>
            <Button onPress={() => setAsking(false)}>Back to the key</Button>
            <Button look={wasCopied ? 'primary' : 'danger'} onPress={onDone}>
              {wasCopied ? 'Yes, close' : 'Close without it'}
            </Button>
          </>
        }
      >
        <p>
          {wasCopied
            ? 'You have copied it. After you close this window, only its last four characters are shown.'
            : 'After you close this window, the key cannot be shown again. If you have not stored it, you must revoke it and generate another one.'}
        </p>
      </Dialog>
    </>
  )
}
