/** Prevents an unhandled rejection if the promise fails before it is awaited. */
export function suppressUnhandledRejection<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}
