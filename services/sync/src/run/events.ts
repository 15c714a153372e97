import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Run, followRun } from '@postern/contracts'
import { type App, StreamedAnswer, contractRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { isFinal } from './rules.ts'
import { findRun } from './store.ts'

const pollEveryMs = 500
const silenceMs = 10_000
/** Shorter than the minute that the request's assertion is valid. */
const streamMs = 50_000

/** Server-sent events (WHATWG HTML §9.2): the run after each change, until it ends. */
export function runEventRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, followRun, async ({ params, context, answer, raw }) => {
    const readRun = async () => {
      context.share?.releaseRows()
      return await db.read(context, async (tx) => await findRun(tx, params.id))
    }
    const first = await readRun()
    if (first === undefined) throw problem('not_found')
    answer.header('cache-control', 'no-store')
    answer.header('x-accel-buffering', 'no')
    const gone = new AbortController()
    raw.raw.once('close', () => gone.abort())
    const events = raw.method === 'HEAD' ? [] : follow(first, readRun, gone.signal)
    return new StreamedAnswer('text/event-stream; charset=utf-8', Readable.from(events, { objectMode: false }))
  })
}

interface RunSnapshot {
  readonly run: Run
  readonly revision: number
}

async function* follow(
  first: RunSnapshot,
  read: () => Promise<RunSnapshot | undefined>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const endsAt = performance.now() + streamMs
  let seen: RunSnapshot = first
  let sentAt = performance.now()
  yield `retry: 1000\n\n${eventOf(seen)}`
  while (!isOver(seen.run) && performance.now() < endsAt) {
    try {
      await sleep(pollEveryMs, undefined, { signal })
    } catch {
      return
    }
    const next = await read()
    if (next === undefined) return
    if (next.revision !== seen.revision) {
      yield eventOf(next)
      sentAt = performance.now()
    } else if (performance.now() - sentAt > silenceMs) {
      yield ': still here\n\n'
      sentAt = performance.now()
    }
    seen = next
  }
  if (isOver(seen.run)) yield `event: end\ndata: {"status":"${seen.run.status}"}\n\n`
}

function isOver({ status }: Run): boolean {
  return isFinal(status) || status === 'needs_approval'
}

function eventOf({ run, revision }: RunSnapshot): string {
  return `id: ${revision}\nevent: run\ndata: ${JSON.stringify(run)}\n\n`
}
