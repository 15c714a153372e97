import { type Run, rollbackRun } from '../api/sync.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'

interface Props {
  readonly run: Run
  readonly onClose: () => void
  readonly onStarted: (rollback: Run) => void
}

export function UndoDialog({ run, onClose, onStarted }: Props) {
  const change = useChange()
  const { isBusy, failure } = change
  const { applied } = run.counts

  const start = async () => {
    await change.run(async (signal) => onStarted(await rollbackRun(run.id, signal)))
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
      <Overdue change={change} mayBe="A rollback may already have started." />
      <p>
        A rollback reverts{' '}
        <strong>
          {applied === 1 ? 'the change' : `all ${applied.toLocaleString()} changes`} that this run applied
        </strong>
        . Rows that were changed again since then stay unchanged. You can undo the rollback in the same way.
      </p>
    </Dialog>
  )
}
