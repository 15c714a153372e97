import { type RequestInfo, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { actorOf } from '../actor.ts'
import { reportLookupFailure } from '../upload/quota.ts'
import { type ResumableUpload, beginTurn, endTurn, findOpenTurn, lockUpload } from './store.ts'

type Parts = Pick<Deps, 'db' | 'partials'>
type Context = RequestInfo['context']

/** Each piece is a file or several objects. */
const maxTurns = 10_000

const maxAttempts = 5

/** Locks an upload and runs `next`, after it ended the open turn of another request. Throws 404 `not_found`. */
export async function acquireUpload<T>(
  { db, partials }: Parts,
  context: Context,
  id: string,
  next: (tx: Tx, upload: ResumableUpload) => Promise<T>,
): Promise<T> {
  let sealed: { readonly turn: number; readonly bytes: number } | undefined
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const known = sealed
    const outcome = await reportLookupFailure(async () =>
      db.write(context, async (tx): Promise<{ readonly given: T } | { readonly turn: number }> => {
        const upload = await lockUpload(tx, id, actorOf(context))
        if (upload === undefined) throw problem('not_found')
        const open = await findOpenTurn(tx, id)
        if (open === undefined) return { given: await next(tx, upload) }
        const there = open.isChecked ? 0 : known?.turn === open.turn ? known.bytes : undefined
        if (there === undefined) return { turn: open.turn }
        const arrived = await endTurn(tx, id, open.turn, Math.min(there, upload.length - upload.arrived))
        return { given: await next(tx, { ...upload, arrived: arrived ?? upload.arrived }) }
      }),
    )
    if ('given' in outcome) return outcome.given
    sealed = { turn: outcome.turn, bytes: await partials.seal(context.tenantId, id, outcome.turn) }
  }
  throw problem('conflict', { detail: 'Other requests are continuing the upload. Read its offset with HEAD.' })
}

export async function startTurn(tx: Tx, upload: ResumableUpload, isChecked: boolean): Promise<number> {
  if (upload.turn >= maxTurns) {
    throw problem('content_too_large', { detail: `An upload can have at most ${maxTurns} pieces.` })
  }
  return await beginTurn(tx, upload.id, isChecked)
}

/** Returns how many bytes of the upload have arrived. Throws if another request ended the turn. */
export async function finishTurn(
  { db }: Pick<Parts, 'db'>,
  context: Context,
  id: string,
  { turn, length }: { readonly turn: number; readonly length: number },
): Promise<number> {
  const arrived = await reportLookupFailure(
    async () => await db.write(context, async (tx) => await endTurn(tx, id, turn, length)),
  )
  if (arrived === undefined) {
    throw problem('conflict', { detail: 'Another request is continuing the upload. Read its offset with HEAD.' })
  }
  return arrived
}
