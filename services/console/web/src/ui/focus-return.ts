import { useEffect } from 'react'

let opener: HTMLElement | undefined

const layers = '.overlay, .popover, .session-warning'

document.addEventListener('focusin', ({ target }) => {
  if (target instanceof HTMLElement && target.closest(layers) === null) opener = target
})

export function useFocusReturn(): void {
  useEffect(
    () => () => {
      // React Aria restores the focus first, but fails after a chain of dialogs.
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

/** Focuses the title if `element` disappears while focused. */
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

export function focusTitle(): void {
  isTitleAwaited = true
  takeTitleFocus()
}

export function takeTitleFocus(): void {
  const title = document.getElementById('page-title')
  if (!isTitleAwaited || title === null) return
  isTitleAwaited = false
  title.focus({ preventScroll: true })
}
