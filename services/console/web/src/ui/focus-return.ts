import { useEffect } from 'react'

/** What had the focus last outside of dialogs and menus: what opened them. */
let opener: HTMLElement | undefined

const layers = '.overlay, .popover, .session-warning'

document.addEventListener('focusin', ({ target }) => {
  if (target instanceof HTMLElement && target.closest(layers) === null) opener = target
})

/** After a dialog: leads the focus to what opened it or, where that is gone, to the title of the page. */
export function useFocusReturn(): void {
  useEffect(
    () => () => {
      // React Aria restores the focus first. It fails where the dialog followed another one or was opened from a menu.
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

/** Focuses the title of the page, as soon as there is one: a page may be loading. */
export function focusTitle(): void {
  isTitleAwaited = true
  takeTitleFocus()
}

/** To be called by a page that has just put up its title. */
export function takeTitleFocus(): void {
  const title = document.getElementById('page-title')
  if (!isTitleAwaited || title === null) return
  isTitleAwaited = false
  title.focus({ preventScroll: true })
}
