import { useEffect } from 'react'

/** The last focused element outside of dialogs and menus. */
let opener: HTMLElement | undefined

const layers = '.overlay, .popover, .session-warning'

document.addEventListener('focusin', ({ target }) => {
  if (target instanceof HTMLElement && target.closest(layers) === null) opener = target
})

/** After a dialog, focuses the element that opened it, or the title of the page if it is gone. */
export function useFocusReturn(): void {
  useEffect(
    () => () => {
      // React Aria restores the focus first. That fails after a chain of dialogs or a menu.
      requestAnimationFrame(() => requestAnimationFrame(returnFocus))
    },
    [],
  )
}

function returnFocus(): void {
  const dialogs = [...document.querySelectorAll('.overlay [role="dialog"], .overlay [role="alertdialog"]')]
  const places = dialogs.length > 0 ? [dialogs.at(-1)] : [opener, document.getElementById('page-title')]
  for (const place of places) {
    if (document.activeElement !== null && document.activeElement !== document.body) break
    if (place instanceof HTMLElement && place.isConnected) place.focus()
  }
  if (opener !== undefined && document.activeElement === opener) focusTitleWithout(opener)
}

/** Focuses the title if `element` disappears while it has the focus. The page may reload after its dialog has closed. */
function focusTitleWithout(element: HTMLElement): void {
  const observer = new MutationObserver(() => {
    if (element.isConnected) return
    stop()
    if (document.activeElement === document.body) focusTitle()
  })
  const stop = () => {
    observer.disconnect()
    document.removeEventListener('focusin', stop)
  }
  observer.observe(document.body, { childList: true, subtree: true })
  document.addEventListener('focusin', stop)
}

let isTitleAwaited = false

/** Focuses the title of the page when it appears. */
export function focusTitle(): void {
  isTitleAwaited = true
  takeTitleFocus()
}

/** Call it when a page has rendered its title. */
export function takeTitleFocus(): void {
  const title = document.getElementById('page-title')
  if (!isTitleAwaited || title === null) return
  isTitleAwaited = false
  title.focus({ preventScroll: true })
}
