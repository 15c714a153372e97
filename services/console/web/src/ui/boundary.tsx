import { Component, type ReactNode, Suspense } from 'react'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Notice } from './notice.tsx'
import { Page } from './page.tsx'

interface Props {
  /** What stands in place of the children once something in them has failed. */
  readonly instead: ReactNode
  /** With another one the children are tried again. */
  readonly place: unknown
  readonly children: ReactNode
}

interface State {
  readonly isBroken: boolean
  readonly place: unknown
}

/**
 * Keeps what fails from taking all that is around it, as React does with an error that nobody catches. Mostly that is a part which is loaded when it
 * is opened, and whose file a new release has taken away.
 */
class Boundary extends Component<Props, State> {
  override state: State = { isBroken: false, place: this.props.place }

  static getDerivedStateFromError(): Partial<State> {
    return { isBroken: true }
  }

  static getDerivedStateFromProps({ place }: Props, state: State): State | null {
    return place === state.place ? null : { isBroken: false, place }
  }

  override render(): ReactNode {
    return this.state.isBroken ? this.props.instead : this.props.children
  }
}

const title = 'This part could not be loaded.'
const why = 'There may be a new release of the console since this page was opened.'
// By the person and not by itself: what is typed elsewhere on the page, or a key that it shows, would be gone.
const loadAgain = () => location.reload()

/** What fails in a page is told in its place. */
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
    <Boundary place={path} instead={instead}>
      {children}
    </Boundary>
  )
}

interface DialogProps {
  /** Which dialog is open, if any: another one is tried anew. */
  readonly open: unknown
  readonly onClose: () => void
  readonly children: ReactNode
}

/** Where the dialogs of a page stand, which are loaded when they are opened. What fails in one is told in a dialog, and the page stays. */
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
    <Boundary place={open} instead={instead}>
      <Suspense>{children}</Suspense>
    </Boundary>
  )
}
