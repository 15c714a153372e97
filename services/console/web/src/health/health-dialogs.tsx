import { lazy } from 'react'
import type { ApiKey } from '../api/keys.ts'
import { useKeys } from '../keys/keys-store.tsx'
import { DialogBoundary } from '../ui/boundary.tsx'
import type { ReasonInfo } from './reasons.ts'

const EditDialog = lazy(async () => ({ default: (await import('../keys/edit-dialog.tsx')).EditDialog }))
const RevokeDialog = lazy(async () => ({ default: (await import('../keys/revoke-dialog.tsx')).RevokeDialog }))
const RotateDialog = lazy(async () => ({ default: (await import('../keys/rotate-dialog.tsx')).RotateDialog }))

export interface OpenDialog {
  readonly info: ReasonInfo
  readonly apiKey: ApiKey
}

interface Props {
  readonly open: OpenDialog | undefined
  readonly onClose: () => void
  readonly onChanged: () => void
}

/** Outside of the page, so that dialogs survive a failed read. */
export function HealthDialogs({ open, onClose, onChanged }: Props) {
  const { put } = useKeys()
  const changed = (key: ApiKey) => {
    put(key)
    onChanged()
  }
  return (
    <DialogBoundary open={open} onClose={onClose}>
      {open?.info.action === 'edit' ? (
        <EditDialog apiKey={open.apiKey} onClose={onClose} onChanged={changed} />
      ) : undefined}
      {open?.info.action === 'revoke' ? (
        <RevokeDialog apiKey={open.apiKey} onClose={onClose} onRevoked={changed} />
      ) : undefined}
      {open?.info.action === 'rotate' ? (
        <RotateDialog apiKey={open.apiKey} onClose={onClose} onRotated={changed} />
      ) : undefined}
    </DialogBoundary>
  )
}
