import type { ServerResponse } from 'node:http'
import { networkOf } from '../authenticate/addresses.ts'

/** Returns false if the network of the address has as many open requests as it may. Otherwise counts one until its end. */
export type EnterPublicRequest = (request: { readonly address: string; readonly response: ServerResponse }) => boolean

/** At the services, all requests without credentials have the places of one tenant. A network gets `max` of them. */
export function createOpenPublicRequests(max: number): EnterPublicRequest {
  const open = new Map<string, number>()
  return ({ address, response }) => {
    const network = networkOf(address)
    const count = open.get(network) ?? 0
    if (count >= max) return false
    // A closed response emits no `close`.
    if (response.closed) return true
    open.set(network, count + 1)
    response.once('close', () => {
      const left = (open.get(network) ?? 1) - 1
      if (left > 0) open.set(network, left)
      else open.delete(network)
    })
    return true
  }
}
