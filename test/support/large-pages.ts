import { connect } from 'node:net'
import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { internalPaths } from '@postern/contracts/internal'
import { type TestStack, operator } from '@postern/local-stack/testing'
import { Agent } from 'undici'

/** The largest page of findings. */
const largePage = '/api/v1/findings?limit=1000'
const pipelined = 600
const reopenAfterMs = 100

/** Creates a key of a new tenant without effective limits. */
export async function createUnlimitedKey(
  stack: Pick<TestStack, 'operator' | 'createTenant' | 'createKey'>,
): Promise<string> {
  const { id } = await stack.createTenant()
  const body = { key_limit: 1_000_000, tenant_limit: 1_000_000 }
  const { status, text } = await stack.operator.call(operator, 'POST', `${internalPaths.tenants}/${id}`, { body })
  if (status !== 200) throw new Error(`the limits were not changed: ${status} ${text}`)
  return (await stack.createKey({ id }, { scopes: ['*'] })).key
}

/** Creates 960 findings of 50 KB: more than ten times the maximum page size. */
export async function documentLongFindings(origin: string, key: string): Promise<void> {
  const text = 'x'.repeat(12_500)
  const long = { title: 'Long', severity: 'high', condition: text, criteria: text, cause: text, consequence: text }
  const items = Array.from({ length: 96 }, () => long)
  for (let bulk = 0; bulk < 10; bulk += 1) {
    const answer = await fetch(`${origin}/api/v1/findings/bulk`, {
      method: 'POST',
      headers: { authorization: `ApiKey ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ mode: 'atomic', items }),
      signal: AbortSignal.timeout(60_000),
    })
    const said = await answer.text()
    if (!answer.ok) throw new Error(`the findings were not made: ${answer.status} ${said.slice(0, 300)}`)
  }
}

/** Requests for large pages that run until stopped or for `maxMs`. */
interface LargePageRequests {
  /** The number of responses by status; 0: none or incomplete. */
  readonly answers: ReadonlyMap<number, number>
  /** The bodies of responses other than 200, 429 and 503. */
  readonly unexpected: readonly string[]
  stop(): Promise<void>
}

/** Requests large pages over `count` connections and reads every response. */
export function readLargePages(
  gateways: readonly string[],
  key: string,
  { count, maxMs }: { readonly count: number; readonly maxMs: number },
): LargePageRequests {
  const agent = new Agent({ connections: count, headersTimeout: 60_000, bodyTimeout: 60_000 })
  const answers = new Map<number, number>()
  const unexpected: string[] = []
  const endsAt = performance.now() + maxMs
  let isStopped = false

  async function read(origin: string): Promise<number> {
    try {
      const headers = { authorization: `ApiKey ${key}` }
      const answer = await agent.request({ origin, path: largePage, method: 'GET', headers })
      if ([200, 429, 503].includes(answer.statusCode)) await finished(answer.body.resume())
      else unexpected.push(`${answer.statusCode} ${await answer.body.text()}`)
      return answer.statusCode
    } catch {
      await delay(reopenAfterMs)
      return 0
    }
  }

  async function readAgainAndAgain(origin: string): Promise<void> {
    while (!isStopped && performance.now() < endsAt) {
      const status = await read(origin)
      answers.set(status, (answers.get(status) ?? 0) + 1)
    }
  }

  const reading = Array.from({ length: count }, async (_, at) => {
    await readAgainAndAgain(gateways[at % gateways.length] ?? '')
  })
  return {
    answers,
    unexpected,
    stop: async () => {
      isStopped = true
      await Promise.all(reading)
      await agent.close()
    },
  }
}

/** Sends 600 requests for large pages without reading; sends them again when the connection is cut. */
export function pipelineLargePages(
  gateway: string,
  key: string,
  { maxMs }: { readonly maxMs: number },
): Pick<LargePageRequests, 'stop'> {
  const { hostname, port, host } = new URL(gateway)
  const request = `GET ${largePage} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ApiKey ${key}\r\n\r\n`
  const ended = new AbortController()
  const limit = setTimeout(() => ended.abort(), maxMs)

  async function send(): Promise<void> {
    const socket = connect(Number(port), hostname, () => socket.write(request.repeat(pipelined)))
    socket.pause()
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.on('error', () => undefined)
    const cut = (): void => void socket.destroy()
    ended.signal.addEventListener('abort', cut)
    await closed
    ended.signal.removeEventListener('abort', cut)
  }

  async function sendAgainAndAgain(): Promise<void> {
    while (!ended.signal.aborted) {
      await send()
      await delay(reopenAfterMs)
    }
  }

  const sending = sendAgainAndAgain()
  return {
    stop: async () => {
      clearTimeout(limit)
      ended.abort()
      await sending
    },
  }
}
