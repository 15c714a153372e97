import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { type Connector, startRun } from '@postern/contracts'
import {
  type App,
  type RequestInfo,
  bodyError,
  contractRoute,
  digestMismatch,
  discardRest,
  parseSha256,
  problem,
} from '@postern/service-kit'
import { isPushed, isUploaded } from '../connector/rules.ts'
import { findConnector } from '../connector/store.ts'
import type { Deps } from '../deps.ts'
import { assertMayBeTable } from '../upload/media-type.ts'
import { receiveUpload } from '../upload/receive.ts'
import { deleteAbandonedUploads, deleteUpload } from '../upload/store.ts'
import { enqueueRun } from './enqueue-run.ts'

export function startRunRoute(app: App, { db, queue }: Pick<Deps, 'db' | 'queue'>): void {
  contractRoute(app, startRun, async (input) => {
    const { params, query, context, raw } = input
    const overrideSafety = query.override_safety === 'true'
    if (overrideSafety && query.reason === undefined) {
      throw problem('bad_request', {
        detail: 'Say why the run may exceed the limits of the connector.',
        errors: [{ parameter: 'reason', code: 'missing', detail: 'must be given with override_safety' }],
      })
    }
    const connector = await db.read(context, async (tx) => await findConnector(tx, params.id))
    if (connector === undefined) throw problem('not_found')
    assertRunnable(connector)
    if (isUploaded(connector.type, connector.config)) assertMayBeTable(raw.headers['content-type'])
    const announced = parseSha256(raw.headers['content-digest'])
    const body = raw.body instanceof Readable ? raw.body : undefined
    const upload = await receiveFile(db, context, connector, { body, announced })
    const run = {
      connectorId: connector.id,
      mode: query.mode,
      trigger: upload === undefined ? 'api' : 'upload',
      uploadId: upload?.id,
      inputSha256: upload?.sha256,
      overrideSafety,
      reason: query.reason,
    } as const
    try {
      return await enqueueRun({ db, queue }, input, async (tx) => {
        await deleteAbandonedUploads(tx)
        return run
      })
    } catch (error) {
      // A later run deletes the file if this fails.
      if (upload !== undefined)
        await db.write(context, async (tx) => await deleteUpload(tx, upload.id)).catch(() => undefined)
      throw error
    }
  })
}

async function receiveFile(
  db: Deps['db'],
  context: RequestInfo['context'],
  connector: Connector,
  { body, announced }: { readonly body: Readable | undefined; readonly announced: string | undefined },
): Promise<Awaited<ReturnType<typeof receiveUpload>> | undefined> {
  const isFile = isUploaded(connector.type, connector.config)
  if (!isFile) {
    if (body !== undefined && (await hasContent(body))) {
      throw problem('invalid_content', {
        detail: 'The connector fetches its source. Send no body.',
        errors: [bodyError('must be empty, because the connector fetches its source', 'unknown')],
      })
    }
    if (announced !== undefined && announced !== sha256OfNothing) throw digestMismatch('sha-256')
    return undefined
  }
  const upload = body === undefined ? undefined : await receiveUpload(db, context, body, announced)
  if (upload === undefined || upload.bytes === 0) {
    throw problem('invalid_content', {
      detail: 'Send the file to be read as the body of the request.',
      errors: [bodyError('is missing', 'required')],
    })
  }
  return upload
}

const sha256OfNothing = hash('sha256', '')

/** Reads at most one part of an unexpected body, and discards the rest. */
async function hasContent(body: Readable): Promise<boolean> {
  try {
    for await (const part of body.iterator({ destroyOnReturn: false })) return Buffer.byteLength(part) > 0
    return false
  } finally {
    void discardRest(body)
  }
}

function assertRunnable(connector: Connector): void {
  if (isPushed(connector)) {
    throw problem('conflict', { detail: 'This connector represents pushes and cannot be run.' })
  }
  if (connector.state === 'paused') throw problem('conflict', { detail: 'The connector is paused.' })
}
