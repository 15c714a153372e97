import { useState } from 'react'
import { type Run, approveRun, listedChanges } from '../api/sync.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'
import { changeCount, changesInWords } from './words.ts'

interface Props {
  readonly run: Run
  readonly onClose: () => void
  readonly onApproved: (run: Run) => void
}

export function ApproveDialog({ run, onClose, onApproved }: Props) {
  const [reason, setReason] = useState('')
  const change = useChange()
  const { isBusy, failure } = change

  const all = changeCount(run)

  const approve = async () => {
    await change.run(async (signal) => onApproved(await approveRun(run, reason.trim(), signal)))
  }

  return (
    <Dialog
      title="Approve these changes?"
      isOpen
      isQuestion
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose} isDisabled={isBusy} autoFocus>
            Not yet
          </Button>
          <Button
            look="primary"
            isBusy={isBusy}
            onPress={() => {
              void approve()
            }}
          >
            Approve and apply
          </Button>
        </>
      }
    >
      {failure === undefined ? undefined : (
        <Failure
          error={failure}
          title="The changes were not approved"
          unsure="It is not known whether the changes were approved"
        />
      )}
      <Overdue change={change} mayBe="The changes may already have been approved." />
      <p>
        <strong>{changesInWords(run)}.</strong>{' '}
        {all > listedChanges
          ? `The page lists ${listedChanges} of ${all.toLocaleString()} changes, and approving applies all of them.`
          : `The page lists all of them.`}{' '}
        If the audit universe has changed since the run compared it, nothing is applied.
      </p>
      <TextBox
        label="Reason"
        isOptional
        value={reason}
        onChange={setReason}
        maxLength={500}
        placeholder="The department was closed in October"
        help="Kept with the run."
      />
    </Dialog>
  )
}
