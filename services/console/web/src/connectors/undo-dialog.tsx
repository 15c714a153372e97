import { useState } from 'react'
import { type Run, rollbackRun } from '../api/sync.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'

interface Props {
  readonly run: Run
  readonly onClose: () => void
  readonly onStarted: (rollback: Run) => void
}

/** Asks before a rollback starts, and says how many changes it reverts. */
export function UndoDialog({ run, onClose, onStarted }: Props) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<unknown>()
  const { applied } = run.counts

  const start = async () => {
    setBusy(true)
    setFailure(undefined)
    try {
      onStarted(await rollbackRun(run.id))
    } catch (error) {
      setFailure(error)
      setBusy(false)
    }
  }

  return (
    <Dialog
      title="Undo this run?"
      isOpen
      isQuestion
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <>
          <Button onPress={onClose} isDisabled={isBusy} autoFocus>
            Keep the changes
          </Button>
          <Button
            look="danger"
            isBusy={isBusy}
            onPress={() => {
              void start()
            }}
          >
            Undo the run
          </Button>
        </>
      }
    >
      {failure === undefined ? undefined : (
        <Failure
          error={failure}
          title="The run was not undone"
          unsure="It is not known whether a rollback was started"
        />
      )}
      <p>
        A rollback reverts{' '}
        <strong>
          {applied === 1 ? 'the change' : `all ${applied.toLocaleString()} changes`} that this run applied
        </strong>
        . Rows that were changed again since then are left as they are. You can undo the rollback in the same way.
      </p>
    </Dialog>
  )
}
