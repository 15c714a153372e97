import type { IncomingMessage } from 'node:http'
import { onceRead } from '@postern/service-kit'

/**
 * Waits for the first bytes of a body in chunks, or its end: a body without content is no body. The bytes stay unread.
 * `onLate` is called where nothing has come in time. Gives a function that ends the wait.
 */
export function peekBody(
  request: IncomingMessage,
  withinMs: number,
  outcomes: {
    readonly onKnown: (hasContent: boolean) => void
    readonly onLate: () => void
    readonly onGone: () => void
  },
): () => void {
  const onData = (chunk: Buffer): void => {
    stop()
    request.pause()
    request.unshift(chunk)
    outcomes.onKnown(true)
  }
  const onEnd = (): void => {
    stop()
    outcomes.onKnown(false)
  }
  const onClose = (): void => {
    stop()
    outcomes.onGone()
  }
  let isOver = false
  const timer = setTimeout(() => {
    onceRead(() => {
      if (isOver) return
      stop()
      outcomes.onLate()
    })
  }, withinMs)
  const stop = (): void => {
    isOver = true
    clearTimeout(timer)
    request.off('data', onData)
    request.off('end', onEnd)
    request.off('close', onClose)
  }
  request.once('end', onEnd)
  request.once('close', onClose)
  request.on('data', onData)
  return stop
}
