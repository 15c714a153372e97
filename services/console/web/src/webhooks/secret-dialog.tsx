import { useEffect, useState } from 'react'
import { useSession } from '../shell/session-gate.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Notice } from '../ui/notice.tsx'

/** The value is only in the state of this dialog. Until it is copied, only the button closes the dialog. */
export function SecretDialog({ value, onClose }: { readonly value: string; readonly onClose: () => void }) {
  const { holdKey } = useSession()
  const [wasCopied, setCopied] = useState(false)
  useEffect(() => (wasCopied ? undefined : holdKey()), [wasCopied, holdKey])
  return (
    <Dialog
      title="Secret of the endpoint"
      isOpen
      isQuestion={!wasCopied}
      onClose={() => {
        if (wasCopied) onClose()
      }}
      footer={
        <Button look={wasCopied ? 'primary' : 'danger'} onPress={onClose}>
          {wasCopied ? 'Done' : 'Close without it'}
        </Button>
      }
    >
      <Notice tone="warning" title="This secret is shown only once">
        Store it with the program that receives the events, which verifies signatures with it. If you lose it, replace
        it.
      </Notice>
      <div className="secret">
        <code className="secret-text" translate="no" data-secret="">
          {value}
        </code>
        <CopyButton text={value} label="Copy secret" look="primary" onCopied={() => setCopied(true)} />
      </div>
    </Dialog>
  )
}
