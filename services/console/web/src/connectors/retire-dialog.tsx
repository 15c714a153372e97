import { useState } from 'react'
import { type Connector, retireConnector } from '../api/sync.ts'
import { navigate } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'

/** Asks once more, and retires a connector. */
export function RetireDialog({ connector, onClose }: { readonly connector: Connector; readonly onClose: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<unknown>()

  const retire = async () => {
    setBusy(true)
    setFailure(undefined)
    try {
      await retireConnector(connector.id)
      navigate('/connectors')
    } catch (error) {
      setFailure(error)
      setBusy(false)
    }
  }

  return (
    <Dialog
      title={`Retire ${connector.name}?`}
      isOpen
      isQuestion
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <>
          <Button onPress={onClose} isDisabled={isBusy} autoFocus>
            Keep it
          </Button>
          <Button
            look="danger"
            isBusy={isBusy}
            onPress={() => {
              void retire()
            }}
          >
            Retire
          </Button>
        </>
      }
    >
      {failure === undefined ? undefined : (
        <Failure
          error={failure}
          title="The connector was not retired"
          unsure="It is not known whether the connector was retired"
        />
      )}
      <p>
        It runs no more and its secrets are erased. What it has brought stays as it is, and so do its runs.{' '}
        <strong>This cannot be undone.</strong>
      </p>
    </Dialog>
  )
}
