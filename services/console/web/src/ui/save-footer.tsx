import { Button } from './button.tsx'

interface Props {
  readonly isBusy: boolean
  readonly onCancel: () => void
  readonly onSave: () => void
  /** Instead of saving, if somebody else has changed the resource. */
  readonly outdated: { readonly label: string; readonly onShow: () => void } | undefined
  readonly save?: string
  readonly look?: 'primary' | 'danger'
}

/** The end of a dialog that changes something. */
export function SaveFooter({ isBusy, onCancel, onSave, outdated, save = 'Save', look = 'primary' }: Props) {
  return (
    <>
      <Button onPress={onCancel} isDisabled={isBusy}>
        Cancel
      </Button>
      {outdated === undefined ? (
        <Button look={look} isBusy={isBusy} onPress={onSave}>
          {save}
        </Button>
      ) : (
        <Button look="primary" onPress={outdated.onShow}>
          {outdated.label}
        </Button>
      )}
    </>
  )
}
