import type { ReactNode } from 'react'
import { Dialog as AriaDialog, Heading } from 'react-aria-components/Dialog'
import { Modal, ModalOverlay } from 'react-aria-components/Modal'
import { Button } from './button.tsx'
import { useFocusReturn } from './focus-return.ts'

interface Props {
  readonly title: ReactNode
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly children: ReactNode
  readonly size?: 'small' | 'large'
  readonly isQuestion?: boolean
  readonly footer: ReactNode
}

export function Dialog({ title, isOpen, onClose, children, size = 'small', isQuestion = false, footer }: Props) {
  return (
    <ModalOverlay
      className="overlay"
      isOpen={isOpen}
      isDismissable={!isQuestion}
      onOpenChange={(open) => {
        if (!open) onClose()
      }}
    >
      <Modal className={`modal modal-${size}`}>
        <FocusReturn />
        <AriaDialog className="dialog" role={isQuestion ? 'alertdialog' : 'dialog'}>
          <header className="dialog-header">
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            {isQuestion ? undefined : <Button look="quiet" icon="close" aria-label="Close" onPress={onClose} />}
          </header>
          <div className="dialog-body">{children}</div>
          <footer className="dialog-footer">{footer}</footer>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}

function FocusReturn() {
  useFocusReturn()
  return undefined
}
