import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import { connect } from 'node:net'
import { once } from 'node:events'
import { json, text } from 'node:stream/consumers'
import {
  type KeyRecord,
  type LeaseAnswer,
  internalPaths,
  leaseRequestSchema,
  lookupsRequestSchema,
  type UsageReport,
  usageReportSchema,
} from '@postern/contracts/internal'
import { assertNoKeyInLine, findFreePort, patience, randomRing } from '@postern/local-stack/testing'
import { type Verification, createVerifier, parseKeyRing } from '@postern/signed-context'
import { startGateway } from '../src/run-gateway.ts'
import { leaseAnswer } from './builders.ts'

/** A scripted keys service. It accepts only signed requests. */
export interface FakeKeys {
  readonly records: Map<string, KeyRecord>
  lease: Partial<LeaseAnswer>
  /** `frozen` never answers, `erring` answers 500. */
  mode: 'well' | 'frozen' | 'erring'
  renewals: number
  readonly reports: UsageReport[]
  hasLeaseBack: boolean
  lookups: number
  /** Look-ups that arrived while it was frozen. */
  held: number
}

export interface Forwarded {
  readonly method: string
  readonly target: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  readonly verification: Verification
}

export interface TestGateway {
  readonly port: number
  readonly adminPort: number
  readonly keys: FakeKeys
  readonly forwarded: Forwarded[]
  /** Complete or not. */
  arrived(): number
  readonly log: string[]
  /** Sends bytes and returns everything until the connection ends. */
  raw(bytes: string): Promise<string>
  get(path: string, key?: string): Promise<{ status: number; text: string; headers: Headers }>
  untilReady(isReady?: boolean): Promise<void>
  close(): Promise<void>
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

function serveKeys(keys: FakeKeys, ring: string): Server {
  const verifier = createVerifier(parseKeyRing(ring), 'internal')
  const find = (hash: string): KeyRecord | null => {
    keys.lookups += 1
    const record = keys.records.get(hash)
    return record === undefined ? null : { ...record, readAt: Date.now() }
  }
  const answerTo = async (request: IncomingMessage): Promise<unknown> => {
    switch (request.url ?? '') {
      case internalPaths.leases: {
        keys.renewals += 1
        const { cursor } = leaseRequestSchema.parse(await json(request))
        return leaseAnswer({ granted: cursor !== null, now: Date.now(), gateways: 1, ...keys.lease })
      }
      case internalPaths.lookupKeys: {
        const { hashes } = lookupsRequestSchema.parse(await json(request))
        return { records: hashes.map(find), now: Date.now() }
      }
      case internalPaths.usage:
        keys.reports.push(usageReportSchema.parse(await json(request)))
        return undefined
      case internalPaths.releaseLease:
        keys.hasLeaseBack = true
        await text(request)
        return undefined
      default:
        await text(request)
        return undefined
    }
  }
  return createServer((request, response) => {
    const { method = '', url: target = '', rawHeaders: headers } = request
    if (!verifier.verify({ method, target, headers }, Date.now()).ok) {
      response.writeHead(401).end()
      return
    }
    if (keys.mode === 'frozen') {
      if (target === internalPaths.lookupKeys) keys.held += 1
      return
    }
    if (keys.mode === 'erring') {
      response.writeHead(500).end()
      return
    }
    void answerTo(request).then((answer) => {
      if (answer === undefined) response.writeHead(204).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
}

/** Sends an endless response as fast as the client reads. */
function sendWithoutEnd(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * 1024, 'x')
  const more = (): void => {
    while (response.writable && response.write(chunk));
  }
  response.on('drain', more)
  more()
}

function serveFindings(forwarded: Forwarded[], ring: string, onArrival: () => void): Server {
  const verifier = createVerifier(parseKeyRing(ring), 'findings')
  const server = createServer({ maxHeaderSize: 65_536, keepAliveTimeout: 75_000 }, (request, response) => {
    if (request.url === '/internal/health/ready') {
      response.end('{}')
      return
    }
    onArrival()
    text(request).then(
      (body) => {
        const { method = '', url: target = '', rawHeaders } = request
        const verification = verifier.verify({ method, target, headers: rawHeaders }, Date.now())
        forwarded.push({ method, target, headers: request.headers, body, verification })
        if (target.endsWith('?unanswered')) return
        if (target.endsWith('?large')) sendWithoutEnd(response)
        else response.end('done')
      },
      () => response.destroy(),
    )
  })
  server.maxHeadersCount = 0
  return server
}

/** A scripted keys service, and a service that records requests. */
export interface GatewayWorld {
  readonly keys: FakeKeys
  readonly forwarded: Forwarded[]
  arrived(): number
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

export async function startGatewayWorld(): Promise<GatewayWorld> {
  const rings = { internal: randomRing(), findings: randomRing() }
  const keys: FakeKeys = {
    records: new Map(),
    lease: {},
    mode: 'well',
    renewals: 0,
    reports: [],
    hasLeaseBack: false,
    lookups: 0,
    held: 0,
  }
  const forwarded: Forwarded[] = []
  let arrived = 0
  const servers = [serveKeys(keys, rings.internal), serveFindings(forwarded, rings.findings, () => (arrived += 1))]
  const [keysPort, findingsPort] = await Promise.all(servers.map(listen))
  const nowhere = `http://127.0.0.1:${await findFreePort()}`
  return {
    keys,
    forwarded,
    arrived: () => arrived,
    env: {
      POSTERN_PORT: '0',
      POSTERN_REDIS_URL: `redis://127.0.0.1:${await findFreePort()}`,
      POSTERN_KEYS_URL: `http://127.0.0.1:${keysPort}`,
      POSTERN_FINDINGS_URL: `http://127.0.0.1:${findingsPort}`,
      POSTERN_UNIVERSE_URL: nowhere,
      POSTERN_EVIDENCE_URL: `http://127.0.0.1:${findingsPort}`,
      POSTERN_SYNC_URL: nowhere,
      POSTERN_SIGNING_KEYS: randomRing(),
      POSTERN_SIGNING_FINDINGS: rings.findings,
      POSTERN_SIGNING_UNIVERSE: randomRing(),
      POSTERN_SIGNING_EVIDENCE: randomRing(),
      POSTERN_SIGNING_SYNC: randomRing(),
      POSTERN_ASSERTION_KEYS: randomRing(),
      POSTERN_INTERNAL_SIGNING_KEYS: rings.internal,
      POSTERN_CACHE_SIGNING_KEYS: randomRing(),
      ...patience,
    },
    close: async () => {
      for (const server of servers) {
        server.closeAllConnections()
        server.close()
      }
    },
  }
}

/** Starts a gateway without Redis, with a scripted keys service and a recording service. */
export async function startTestGateway(
  settings: Readonly<Record<string, string>> = {},
  options: { readonly answersWithinMs?: number } = {},
): Promise<TestGateway> {
  const world = await startGatewayWorld()
  const { keys, forwarded, arrived, env } = world
  const log: string[] = []
  const keepLine = (line: string): void => {
    assertNoKeyInLine(line)
    log.push(line)
  }
  const running = await startGateway({ ...env, ...settings }, { writeLog: keepLine, ...options })
  return {
    port: running.port,
    adminPort: running.adminPort,
    keys,
    forwarded,
    arrived,
    log,
    raw: async (bytes) => {
      const socket = connect(running.port, '127.0.0.1', () => socket.write(bytes, 'latin1'))
      socket.on('error', () => undefined)
      let received = ''
      socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
      await new Promise((resolve) => socket.once('close', resolve))
      return received
    },
    get: async (path, key) => {
      const headers = key === undefined ? {} : { authorization: `ApiKey ${key}` }
      const answer = await fetch(`http://127.0.0.1:${running.port}${path}`, { headers })
      return { status: answer.status, text: await answer.text(), headers: answer.headers }
    },
    untilReady: async (isReady = true) => {
      for (;;) {
        const answer = await fetch(`http://127.0.0.1:${running.adminPort}/internal/health/ready`)
        await answer.text()
        if (answer.ok === isReady) return
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    },
    close: async () => {
      keys.mode = 'well'
      await running.close()
      await world.close()
    },
  }
}
