export interface WaitQueue {
  readonly length: number
  /** `tryBegin` is not called again after it returned true. */
  append(tryBegin: () => boolean): WaitingRequest
  serve(): void
}

export interface WaitingRequest {
  /** False if the request waited too long or was removed. */
  readonly hasBegun: Promise<boolean>
  leave(): void
}

export function createWaitQueue(waitMs: number): WaitQueue {
  const waiting = new Set<{ readonly tryBegin: () => boolean; readonly end: (hasBegun: boolean) => void }>()

  function serve(): void {
    for (const { tryBegin, end } of waiting) {
      if (!tryBegin()) return
      end(true)
    }
  }

  return {
    get length() {
      return waiting.size
    },
    append: (tryBegin) => {
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const request = {
        tryBegin,
        end: (hasBegun: boolean): void => {
          if (!waiting.delete(request)) return
          clearTimeout(timer)
          resolve(hasBegun)
        },
      }
      const leave = (): void => {
        request.end(false)
        serve()
      }
      const timer = setTimeout(leave, waitMs)
      waiting.add(request)
      return { hasBegun: promise, leave }
    },
    serve,
  }
}
