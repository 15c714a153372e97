/** Returns the promise, without an unhandled rejection if it fails before somebody awaits it. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}
