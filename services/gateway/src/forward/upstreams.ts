import { type Upstream, upstreams } from '@postern/contracts'
import { idleConnections } from '@postern/service-client'
import { type Signer, createSigner } from '@postern/signed-context'
import type { GatewayConfig } from '../config.ts'
import { type Connections, openConnections } from './connections.ts'

export interface UpstreamTarget {
  readonly name: Upstream
  readonly pool: Connections
  readonly signer: Signer
  readonly basePath: string
}

export interface Upstreams {
  readonly targets: Readonly<Record<Upstream, UpstreamTarget>>
  readonly basePath: string
  close(): Promise<void>
}

const connectTimeoutMs = 2000

/** With a buffer of 64 KiB, each chunk would pause the client. */
const sendBufferBytes = 256 * 1024

/** Small, because it is full while a client does not read. */
const receiveBufferBytes = 16 * 1024

/** undici passes all options to `net.connect`, although its types name fewer. */
const connection = {
  timeout: connectTimeoutMs,
  writableHighWaterMark: sendBufferBytes,
  readableHighWaterMark: receiveBufferBytes,
}

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
    close: async () => {
      await Promise.all(upstreams.map(async (name) => await targets[name].pool.destroy()))
    },
  }
}
