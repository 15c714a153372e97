import { runAfterPendingReads } from '@postern/service-kit'
import type { Exchange } from './exchange.ts'
import type { OpenRequest, OpenRequests } from './open-requests.ts'
import { type Refusal, refusal } from './refusal.ts'

/** Sets `hasContent` of a chunked body. Resolves with a refusal after a timeout or if the caller loses its access. */
export type AwaitContent = (exchange: Exchange) => Promise<Refusal | undefined> | undefined

export function createAwaitContent(parts: {
  readonly openRequests: Pick<OpenRequests, 'add' | 'remove'>
  readonly clientTimeoutMs: number
}): AwaitContent {
  const { openRequests, clientTimeoutMs } = parts

  async function peek(exchange: Exchange): Promise<Refusal | undefined> {
    const { request } = exchange
    const { promise, resolve } = Promise.withResolvers<Refusal | undefined>()
    let isOver = false
    const finish = (refused?: Refusal): void => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      request.off('data', onData)
      request.off('end', onEnd)
      request.off('close', onClose)
      openRequests.remove(open)
      resolve(refused)
    }
    const onData = (chunk: Buffer): void => {
      exchange.hasContent = true
      finish()
      request.pause()
      request.unshift(chunk)
    }
    const onEnd = (): void => {
      exchange.hasContent = false
      finish()
    }
    const onClose = (): void => finish()
    const onLate = (): void => {
      finish(refusal('request_timeout', { detail: 'The body arrived too slowly. Send it faster.' }))
    }
    const timer = setTimeout(() => runAfterPendingReads(onLate), clientTimeoutMs)
    const open: OpenRequest = {
      exchange,
      checkedAt: 0,
      checkedRound: 0,
      openIndex: -1,
      end: (code, answer) => finish(refusal(code, answer)),
      abandon: onClose,
    }
    request.once('end', onEnd)
    request.once('close', onClose)
    request.on('data', onData)
    if (exchange.principal !== undefined) openRequests.add(open)
    return await promise
  }

  return (exchange) => {
    const isKnown = exchange.headers.read['transfer-encoding'] === undefined || exchange.hasContent !== undefined
    return isKnown ? undefined : peek(exchange)
  }
}
