import type { Destination, Route, ServiceProcessName } from '@postern/local-stack/testing'
import { type TcpProxy, startTcpProxy } from './tcp-proxy.ts'

/** The name of a process that opens connections. */
export type Source = ServiceProcessName | 'operator'

/** The proxies between the processes of a stack, created on first use. */
export interface Links {
  readonly route: Route
  find(from: Source, to: Destination): TcpProxy
  /** Returns all proxies to a destination. */
  to(destination: Destination): TcpProxy[]
  close(): Promise<void>
}

/** The Redis command that precedes announcements. */
const subscription = /\$9\r\nsubscribe\r\n/i

/**
 * Creates links for a new stack; pass `route` to it. Links to a service with two processes alternate. Redis
 * subscriptions are marked.
 */
export function createLinks(): Links {
  const proxies = new Map<string, TcpProxy>()
  return {
    route: async (from, to, url, second) => {
      const target = new URL(url)
      const name = `${from} ${to}`
      const ports = [url, second].flatMap((one) => (one === undefined ? [] : [Number(new URL(one).port)]))
      const proxy = proxies.get(name) ?? (await startTcpProxy(ports, to === 'redis' ? subscription : undefined))
      proxies.set(name, proxy)
      target.port = String(proxy.port)
      return target.href.replace(/\/$/, '')
    },
    find: (from, to) => {
      const proxy = proxies.get(`${from} ${to}`)
      if (proxy === undefined) throw new Error(`nothing leads from ${from} to ${to}`)
      return proxy
    },
    to: (destination) => [...proxies].flatMap(([name, proxy]) => (name.split(' ')[1] === destination ? [proxy] : [])),
    close: async () => {
      await Promise.all([...proxies.values()].map(async (proxy) => await proxy.close()))
    },
  }
}
