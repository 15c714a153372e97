import { setTimeout as delay } from 'node:timers/promises'
import { createTestBrowser } from '@postern/local-stack/testing'
import { z } from 'zod'
import type { Failure } from './stalls.ts'
import { WrongAnswerError, failureOf } from './failure.ts'

export interface Visits {
  readonly count: number
  readonly failures: readonly Failure[]
  stop(): Promise<void>
}

const sessionSchema = z.object({ csrf_token: z.string() })
const people = ['harbourline-viewer', 'harbourline-auditor', 'harbourline-admin'] as const

/** Every second person leaves the session without signing out. */
export function startVisits(url: string, everyMs: number): Visits {
  const failures: Failure[] = []
  const stopping = new AbortController()
  let count = 0

  async function visit(turn: number): Promise<void> {
    const browser = createTestBrowser()
    await browser.signIn(url, people[turn % people.length] ?? '')
    const answer = await browser.send(`${url}/auth/session`)
    if (answer.status !== 200) throw new WrongAnswerError('the session', answer)
    const { csrf_token: token } = sessionSchema.parse(JSON.parse(answer.text))
    const headers = { accept: 'application/json', 'x-csrf-token': token, origin: url, 'sec-fetch-site': 'same-origin' }
    for (const path of ['/api/v1/whoami', '/api/v1/findings?limit=20']) {
      const found = await browser.send(url + path, { headers })
      if (found.status !== 200) throw new WrongAnswerError(`${path} at the console`, found)
    }
    if (turn % 2 === 0) return
    const left = await browser.send(`${url}/auth/logout`, { method: 'POST', headers })
    if (left.status !== 200) throw new WrongAnswerError('signing out', left)
  }

  const loop = async (): Promise<void> => {
    for (let turn = 0; !stopping.signal.aborted; turn += 1) {
      const startedAt = performance.now()
      await visit(turn).catch((error: unknown) => failures.push(failureOf(error, startedAt)))
      count += 1
      await delay(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }
  const running = loop()
  return {
    get count() {
      return count
    },
    failures,
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}
