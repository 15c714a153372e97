import { lookup as lookUp } from 'node:dns/promises'
import { isIP } from 'node:net'
import { SourceReadError } from '../source/source-read-error.ts'
import { createAddressPolicy, plainAddress } from './address-policy.ts'
import { openHttp } from './http.ts'
import type { Outbound, OutboundAddress } from './outbound.ts'

export type Lookup = (host: string) => Promise<readonly { readonly address: string }[]>

const systemLookup: Lookup = async (host) => await lookUp(host, { all: true })

/** `networks`: ranges (CIDR) of the platform's network that sources may be in; all other addresses must be public. */
export function openOutbound({
  networks,
  lookup = systemLookup,
}: {
  readonly networks: readonly string[]
  readonly lookup?: Lookup
}): Outbound {
  const policy = createAddressPolicy(networks)
  const resolve = async (host: string, signal: AbortSignal): Promise<OutboundAddress> => {
    const name = host.replace(/^\[(.*)\]$/, '$1')
    const addresses = isIP(name) === 0 ? await findAddresses(name, lookup, signal) : [name]
    // Every address is checked, because a name with one internal address reaches it sooner or later.
    if (!addresses.every((address) => policy.mayConnect(address))) throw notAllowedError(host)
    // IPv4 first: hosts without IPv6 connectivity often look as if they had it.
    const plain = addresses.map(plainAddress)
    const address = plain.find((each) => isIP(each) === 4) ?? plain[0]
    if (address === undefined) throw unknownHostError(host)
    return { address, family: isIP(address) === 4 ? 4 : 6 }
  }
  return {
    resolve,
    isListed: policy.isListed,
    http: (options) => openHttp(options, { resolve, isListed: policy.isListed }),
  }
}

async function findAddresses(host: string, lookup: Lookup, signal: AbortSignal): Promise<readonly string[]> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const stop = (): void => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    const found = await Promise.race([lookup(host), aborted])
    return found.map(({ address }) => address)
  } catch (cause) {
    signal.throwIfAborted()
    throw unknownHostError(host, cause)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function unknownHostError(host: string, cause?: unknown): SourceReadError {
  const message = `no address is known for the host ${host}: check its name`
  return new SourceReadError('host_unknown', message, { retryable: true, cause })
}

/** Does not show the address, so that connectors cannot be used to explore the network. */
function notAllowedError(host: string): SourceReadError {
  const message = `the host ${host} is at an address that connectors may not reach: have the platform list its network`
  return new SourceReadError('address_not_allowed', message)
}
