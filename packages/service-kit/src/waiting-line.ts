/** A queue of requests that begin in order, each as soon as it can. */
export interface WaitingLine {
  /** Requests that wait. */
  readonly length: number
  /** Appends a request. `tryBegin` returns whether the request can begin; after true it is not called again. */
  append(tryBegin: () => boolean): WaitingRequest
  /** Begins requests from the head of the queue while they can begin. */
  serve(): void
}

export interface WaitingRequest {
  /** Resolves with true when the request begins, with false if it waited too long or was removed. */
  readonly hasBegun: Promise<boolean>
  /** Takes the request out of the line. */
  leave(): void
}

/** Creates a queue in which a request waits at most `waitMs`. */
export function createWaitingLine(waitMs: number): WaitingLine {
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
        // The request behind it may need less.
        serve()
      }
      const timer = setTimeout(leave, waitMs)
      waiting.add(request)
      return { hasBegun: promise, leave }
    },
    serve,
  }
}
