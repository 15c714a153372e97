import { type Upstream, upstreams } from '@postern/contracts'
import { idleConnections } from '@postern/service-client'
import { type Signer, createSigner } from '@postern/signed-context'
import type { GatewayConfig } from '../config.ts'
import { type Connections, openConnections } from './connections.ts'

/** One service behind the gateway: kept-alive connections, and the signer whose secret only the two of them have. */
export interface UpstreamTarget {
  readonly name: Upstream
  readonly pool: Connections
  readonly signer: Signer
  /** Path below which a proxy publishes the API; empty at the root. */
  readonly basePath: string
}

export interface Upstreams {
  readonly targets: Readonly<Record<Upstream, UpstreamTarget>>
  readonly basePath: string
  /** To be called now and then: gives back what was not used since the last time. */
  prune(): void
  close(): Promise<void>
}

const connectTimeoutMs = 2000

/**
 * How much of a body may wait for a service that does not take it at once. Chunks of a body have up to 64 KiB, and with no
 * more than that each of them would stop the client and set it going again.
 */
const sendBufferBytes = 256 * 1024

/** How much of an answer may wait for a client that does not take it. */
const receiveBufferBytes = 16 * 1024

/** undici hands all of it to `net.connect`, though its types name less. */
const connection = {
  timeout: connectTimeoutMs,
  writableHighWaterMark: sendBufferBytes,
  readableHighWaterMark: receiveBufferBytes,
}

/**
 * Opens connections to each upstream. No pipelining, and no retry anywhere: a request is sent once or fails. There may be
 * at least as many as the usual concurrency, since waiting for a connection costs more than the connection.
 */
export function openUpstreams(
  config: Pick<
    GatewayConfig,
    'upstreams' | 'upstreamConnections' | 'tenantConnections' | 'upstreamWaiting' | 'basePath'
  >,
): Upstreams {
  const { basePath } = config
  const open = (name: Upstream): UpstreamTarget => ({
    name,
    signer: createSigner(config.upstreams[name].ring, name),
    basePath,
    pool: openConnections(
      config.upstreams[name].url,
      {
        connections: config.upstreamConnections,
        perTenant: config.tenantConnections,
        waiting: config.upstreamWaiting,
      },
      {
        connect: connection,
        ...idleConnections,
        maxHeaderSize: 32_768,
      },
    ),
  })
  const targets = {
    keys: open('keys'),
    findings: open('findings'),
    universe: open('universe'),
    evidence: open('evidence'),
    sync: open('sync'),
  }
  return {
    targets,
    basePath,
    prune: () => {
      for (const name of upstreams) targets[name].pool.prune()
    },
    close: async () => {
      await Promise.all(upstreams.map(async (name) => await targets[name].pool.destroy()))
    },
  }
}
