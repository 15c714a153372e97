/** The promise, whose failure is told when it is waited for, and ends no process before. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}
