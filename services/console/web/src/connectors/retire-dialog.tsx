import { type Connector, retireConnector } from '../api/sync.ts'
import { navigate } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'

export function RetireDialog({ connector, onClose }: { readonly connector: Connector; readonly onClose: () => void }) {
  const change = useChange()
  const { isBusy, failure } = change

  const retire = async () => {
    await change.run(async (signal) => {
      await retireConnector(connector.id, signal)
      navigate('/connectors')
    })
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
      <Overdue change={change} mayBe="The connector may already have been retired." />
      <p>
        It no longer runs, and its secrets are deleted. The imported data and its runs stay.{' '}
        <strong>This cannot be undone.</strong>
      </p>
    </Dialog>
  )
}
