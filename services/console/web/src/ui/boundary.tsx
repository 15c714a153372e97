import { Component, type ReactNode, Suspense } from 'react'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Notice } from './notice.tsx'
import { Page } from './page.tsx'

interface Props {
  readonly instead: ReactNode
  readonly resetKey: unknown
  readonly children: ReactNode
}

interface State {
  readonly isBroken: boolean
  readonly resetKey: unknown
}

/** Catches errors, mostly of scripts that a new release has replaced. */
class Boundary extends Component<Props, State> {
  override state: State = { isBroken: false, resetKey: this.props.resetKey }

  static getDerivedStateFromError(): Partial<State> {
    return { isBroken: true }
  }

  static getDerivedStateFromProps({ resetKey }: Props, state: State): State | null {
    return resetKey === state.resetKey ? null : { isBroken: false, resetKey }
  }

  override render(): ReactNode {
    return this.state.isBroken ? this.props.instead : this.props.children
  }
}

const title = 'This part could not be loaded.'
const why = 'There may be a new release of the console since this page was opened.'
// Reloading automatically would lose input or a shown key.
const loadAgain = () => location.reload()

export function PageBoundary({ path, children }: { readonly path?: string; readonly children: ReactNode }) {
  const instead = (
    <Page title="Not loaded">
      <Notice
        tone="danger"
        title={title}
        isNews
        action={
          <Button size="small" onPress={loadAgain}>
            Load the page again
          </Button>
        }
      >
        {why}
      </Notice>
    </Page>
  )
  return (
    <Boundary resetKey={path} instead={instead}>
      {children}
    </Boundary>
  )
}

interface DialogProps {
  readonly open: unknown
  readonly onClose: () => void
  readonly children: ReactNode
}

export function DialogBoundary({ open, onClose, children }: DialogProps) {
  const instead = (
    <Dialog
      title={title}
      isOpen
      isQuestion
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button look="primary" onPress={loadAgain}>
            Load the page again
          </Button>
        </>
      }
    >
      <p>{why}</p>
    </Dialog>
  )
  return (
    <Boundary resetKey={open} instead={instead}>
      <Suspense>{children}</Suspense>
    </Boundary>
  )
}
