import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { generateKey } from '@postern/api-key'
import { type RequestOptions, send } from '../../test/support/http.ts'
import { breakOff } from '../../test/support/raw.ts'
import type { Failure } from './stalls.ts'
import { WrongAnswerError, failureOf } from './failure.ts'

interface Mistake {
  readonly name: string
  readonly path: string
  readonly options: RequestOptions
  readonly status: number
}

export interface FaultyClients {
  readonly done: Readonly<Record<string, number>>
  readonly failures: readonly Failure[]
  stop(): Promise<void>
}

const findings = '/api/v1/findings'
export const brokenUpload = 'broken-off-'

function mistakesOf(key: string, narrow: string): Mistake[] {
  const { value } = generateKey()
  const mistyped = value.slice(0, -1) + (value.endsWith('0') ? '1' : '0')
  const nobody = '00000000-0000-7000-8000-000000000000'
  const gzip = { 'content-encoding': 'gzip', 'content-type': 'application/json' }
  return [
    { name: 'no credentials', path: findings, options: {}, status: 401 },
    { name: 'unknown key', path: findings, options: { key: value }, status: 401 },
    { name: 'mistyped key', path: findings, options: { key: mistyped }, status: 401 },
    { name: 'missing scope', path: findings, options: { key: narrow }, status: 403 },
    { name: 'unknown path', path: '/api/v1/no-such-thing', options: { key }, status: 404 },
    { name: 'unknown finding', path: `${findings}/${nobody}`, options: { key }, status: 404 },
    { name: 'wrong method', path: findings, options: { key, method: 'DELETE' }, status: 405 },
    { name: 'unknown parameter', path: `${findings}?x=1`, options: { key }, status: 400 },
    { name: 'dots in the path', path: `${findings}/%2e%2e/keys`, options: { key }, status: 400 },
    { name: 'no JSON', path: findings, options: { key, method: 'POST', body: '{', headers: json }, status: 400 },
    { name: 'wrong content', path: findings, options: { key, method: 'POST', body: { title: 7 } }, status: 422 },
    {
      name: 'compressed body',
      path: findings,
      options: { key, method: 'POST', body: 'x', headers: gzip },
      status: 415,
    },
  ]
}

const json = { 'content-type': 'application/json' }

export function startFaultyClients(options: {
  readonly gateways: readonly string[]
  readonly key: string
  readonly narrow: string
  readonly everyMs: number
}): FaultyClients {
  const { gateways, key, narrow, everyMs } = options
  const done: Record<string, number> = {}
  const failures: Failure[] = []
  const stopping = new AbortController()
  const mistakes = mistakesOf(key, narrow)
  const disconnections = disconnectionsOf(key)

  async function loop(step: (turn: number, gateway: string) => Promise<string>): Promise<void> {
    for (let turn = 0; !stopping.signal.aborted; turn += 1) {
      const gateway = gateways[turn % gateways.length] ?? ''
      const startedAt = performance.now()
      try {
        const name = await step(turn, gateway)
        done[name] = (done[name] ?? 0) + 1
      } catch (error) {
        failures.push(failureOf(error, startedAt))
      }
      await delay(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }

  const loops = [
    loop(async (turn, gateway) => {
      const { name, path, options: asked, status } = pick(mistakes, turn)
      const answer = await send(gateway, path, asked)
      if (answer.status !== status) throw new WrongAnswerError(name, answer)
      return name
    }),
    loop(async (turn, gateway) => {
      const { name, disconnect } = pick(disconnections, turn)
      await disconnect(gateway, turn)
      return name
    }),
  ]
  return {
    done,
    failures,
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}

function pick<T>(from: readonly T[], turn: number): T {
  const found = from[Math.floor(turn / 2) % from.length]
  if (found === undefined) throw new Error('there is nothing to pick')
  return found
}

function disconnectionsOf(
  key: string,
): { name: string; disconnect: (gateway: string, turn: number) => Promise<void> }[] {
  const head = (line: string, ...more: string[]): string =>
    [`${line} HTTP/1.1`, 'host: x', `authorization: ApiKey ${key}`, ...more, '', ''].join('\r\n')
  const list = head(`GET ${findings}?limit=200`)
  return [
    { name: 'reset at once', disconnect: async (gateway) => await breakOff(gateway, list, true) },
    { name: 'reset at the first byte', disconnect: async (gateway) => await breakOff(gateway, list, false) },
    { name: 'half a head', disconnect: async (gateway) => await sendPart(gateway, list.slice(0, 60)) },
    {
      name: 'half a file',
      disconnect: async (gateway, turn) => {
        const upload = head(
          `POST /api/v1/evidence?file_name=${brokenUpload}${turn}.txt`,
          'content-type: text/plain',
          'content-length: 1000000',
        )
        await sendPart(gateway, upload + 'x'.repeat(200_000))
      },
    },
    {
      name: 'half a finding',
      disconnect: async (gateway) =>
        await sendPart(
          gateway,
          `${head(`POST ${findings}`, 'content-type: application/json', 'content-length: 500')}{"title":`,
        ),
    },
    { name: 'reads nothing', disconnect: async (gateway) => await sendPart(gateway, list.repeat(8), true) },
  ]
}

const lingerMs = 1500

/** Sends the bytes and disconnects later. With `isUnread`, it does not read the response. */
async function sendPart(origin: string, bytes: string, isUnread = false): Promise<void> {
  const { hostname, port } = new URL(origin)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => undefined)
  if (isUnread) socket.pause()
  else socket.resume()
  socket.write(bytes, 'latin1')
  await delay(lingerMs)
  socket.destroy()
}
