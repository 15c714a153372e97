import { Readable } from 'node:stream'
import { type EvidenceFile, readEvidenceContent } from '@postern/contracts'
import { type App, ProblemError, type RequestInfo, StreamedAnswer, contractRoute, problem } from '@postern/service-kit'
import { isMissing } from '../blob/blob-store.ts'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { findFile, lockFile } from '../file/store.ts'
import { actorOf } from '../actor.ts'
import { recordFailure } from '../upload/store.ts'
import { attachmentOf } from './disposition.ts'
import { DamagedContentError, verifiedContent } from './verified-content.ts'

export function contentRoutes(
  app: App,
  { db, blobs, countDamaged }: Pick<Deps, 'db' | 'blobs' | 'countDamaged'>,
): void {
  contractRoute(app, readEvidenceContent, async ({ params, mediaType, context, requestId, answer, raw, log }) => {
    const lookUp = async () =>
      assertReadable(await withAccessProblem(async () => await db.read(context, async (tx) => findFile(tx, params.id))))
    const file = await lookUp()
    if (raw.method === 'HEAD') {
      describe(answer, file)
      return new StreamedAnswer(mediaType, Readable.from([]))
    }

    const source = await blobs
      .read({ tenantId: context.tenantId, sha256: file.sha256 })
      .catch(async (error: unknown) => {
        await lookUp()
        if (!isMissing(error)) throw error
        const damaged = new DamagedContentError({ cause: error })
        warn(damaged)
        throw damaged
      })
    try {
      const bytes = verifiedContent(source, file.sha256)
      const first = await bytes.next()
      await withAccessProblem(
        async () =>
          await db.write(context, async (tx) => {
            assertReadable(await lockFile(tx, params.id))
            const event = { kind: 'viewed', detail: { size_bytes: file.size_bytes } } as const
            await insertCustodyEvents(tx, { fileId: file.id }, [event], { actor: actorOf(context), requestId })
          }),
      )
      describe(answer, file)
      const content = Readable.from(continueFrom(first, bytes), { objectMode: false })
      content.once('close', () => source.destroy())
      content.once('error', (error) => warn(error))
      return new StreamedAnswer(mediaType, content)
    } catch (error) {
      source.destroy()
      warn(error)
      throw error
    }

    function warn(error: unknown): void {
      if (!(error instanceof DamagedContentError)) return
      countDamaged()
      log.error({ event: 'content_damaged', request_id: requestId, file_id: file.id })
    }
  })
}

function assertReadable(found: { readonly file: EvidenceFile } | undefined): EvidenceFile {
  if (found === undefined) throw problem('not_found')
  const { file } = found
  if (file.status === 'quarantined') {
    throw problem('conflict', { detail: 'The file is in quarantine and cannot be read until it is released.' })
  }
  if (file.status === 'purged') throw problem('conflict', { detail: 'The file is purged: its bytes are gone.' })
  return file
}

function describe(
  answer: RequestInfo['answer'],
  { file_name: fileName, size_bytes: bytes, sha256 }: EvidenceFile,
): void {
  const digest = `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`
  answer.header('content-disposition', attachmentOf(fileName))
  answer.header('content-length', String(bytes))
  answer.header('content-digest', digest)
  answer.header('repr-digest', digest)
  answer.header('x-content-type-options', 'nosniff')
  // If a browser displays the file anyway, it cannot run, load or send anything.
  answer.header('content-security-policy', "default-src 'none'; sandbox")
}

async function* continueFrom(
  first: IteratorResult<Uint8Array>,
  rest: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (first.done === true) return
  yield first.value
  yield* rest
}

async function withAccessProblem<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof ProblemError || recordFailure(error) === 'unexpected') throw error
    throw problem('service_unavailable', {
      detail: 'Access to the file cannot be recorded at the moment, so the file is not shown. Try again in a moment.',
      retryAfterSeconds: 5,
      cause: error,
    })
  }
}
