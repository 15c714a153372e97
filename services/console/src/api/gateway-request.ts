import type { Dispatcher } from 'undici'

class ClientLeftError extends Error {
  override readonly name = 'ClientLeftError'
}

/** A request from the proxy to the gateway. */
export class GatewayRequest {
  isOver = false
  onEnd: () => void = () => undefined
  #isAborted = false
  #controller: Dispatcher.DispatchController | undefined

  abort(): void {
    this.#isAborted = true
    if (!this.isOver) this.#controller?.abort(new ClientLeftError())
  }

  /** Returns a handler that also tells this request what happens. */
  observe(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
    return {
      onRequestStart: (controller, context) => {
        this.#controller = controller
        handler.onRequestStart?.(controller, context)
        if (this.#isAborted) this.abort()
      },
      onResponseStart: (...args) => handler.onResponseStart?.(...args),
      onResponseData: (...args) => handler.onResponseData?.(...args),
      onResponseEnd: (...args) => {
        this.#end()
        handler.onResponseEnd?.(...args)
      },
      onResponseError: (...args) => {
        this.#end()
        handler.onResponseError?.(...args)
      },
    }
  }

  #end(): void {
    this.isOver = true
    this.onEnd()
  }
}
