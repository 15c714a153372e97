import { Readable } from 'node:stream'
import { type ConnectorTest, testConnector } from '@postern/contracts'
import { type App, bodyError, contractRoute, detachBody, discardRest, isBrokenOff, problem } from '@postern/service-kit'
import { datasetRules } from '../dataset/rules.ts'
import type { Deps } from '../deps.ts'
import { assertColumns, isTable } from '../mapping/columns.ts'
import { createMapper } from '../mapping/map-row.ts'
import { createItemReader } from '../mapping/readable-item.ts'
import { rulesInNames, rulesOfAttributes } from '../mapping/attributes.ts'
import { openSecrets } from '../secret/open-secrets.ts'
import { SourceReadError, describeFailure } from '../source/source-read-error.ts'
import { type SourceItem, rowsOf } from '../source/types.ts'
import { assertMayBeTable } from '../upload/media-type.ts'
import { isUploaded } from './rules.ts'
import { findConnector, findWithSecrets } from './store.ts'

const rowsShown = 20
const testMs = 20_000

/** Tests a connector: returns the first rows of its source and what they become. Stores nothing. */
export function connectorTestRoutes(
  app: App,
  { db, sources, secretRing, outbound, limits }: Pick<Deps, 'db' | 'sources' | 'secretRing' | 'outbound' | 'limits'>,
): void {
  contractRoute(app, testConnector, async ({ params, context, raw, log, requestId }): Promise<ConnectorTest> => {
    const found = await db.write(context, async (tx) => {
      const connector = await findConnector(tx, params.id)
      return connector === undefined ? undefined : await findWithSecrets(tx, connector.id)
    })
    if (found === undefined) throw problem('not_found')
    const { connector, sealed } = found
    if (isUploaded(connector.type, connector.config)) assertMayBeTable(raw.headers['content-type'])
    const source = sources.get(connector.type)
    if (source === undefined) {
      const detail = 'Connectors of this type cannot be tested.'
      throw problem('invalid_content', { detail, errors: [bodyError(detail)] })
    }
    const rules = datasetRules[connector.dataset]
    const mapping = rulesOfAttributes(rulesInNames(connector.mapping, source), source.attributesOf(connector.config))
    const mapper = createMapper(mapping, rules)
    const readItem = createItemReader(mapping, rules)
    const rows: ConnectorTest['rows'] = []
    // The source closes its stream when it has enough rows, which must not close the request.
    const body = raw.body instanceof Readable ? raw.body : undefined
    const upload = body === undefined ? undefined : detachBody(body)
    const ended = new AbortController()
    try {
      const place = { tenantId: context.tenantId, connectorId: connector.id }
      const secrets = openSecrets(secretRing, place, sealed)
      const bounds = { ...limits, maxDurationMs: Math.min(testMs, limits.maxDurationMs) }
      let isFirst = isTable(connector.type)
      for await (const item of source.read({
        config: connector.config,
        secrets,
        outbound,
        signal: ended.signal,
        limits: bounds,
        upload,
      })) {
        const columns = item.kind === 'texts' ? item.columns : Object.keys(item.values ?? {})
        if (isFirst && item.kind !== 'error') {
          assertColumns(connector, rules, columns)
          isFirst = false
        }
        for (const row of item.kind === 'texts' ? rowsOf(item) : [item]) {
          rows.push(show(readItem(row), mapper))
          if (rows.length >= rowsShown) break
        }
        if (rows.length >= rowsShown) break
      }
    } catch (error) {
      if (isBrokenOff(raw, error)) throw error
      log.info({ event: 'connector_test_failed', request_id: requestId, err: error })
      if (error instanceof SourceReadError) {
        const errors = [bodyError(describeFailure(error), error.code)]
        throw problem('invalid_content', { detail: `The source cannot be read: ${describeFailure(error)}`, errors })
      }
      throw problem('bad_gateway', { detail: 'The source cannot be read.', cause: error })
    } finally {
      ended.abort()
      await discardRest(body, { maxBytes: limits.maxBytes, maxMs: testMs })
    }
    return { rows }
  })
}

function show(item: SourceItem, mapper: ReturnType<typeof createMapper>): ConnectorTest['rows'][number] {
  if (item.kind === 'error') {
    const { row, field = null, code, message } = item
    return { row, values: {}, mapped: null, errors: [{ field, code, message }] }
  }
  const mapped = mapper(item.values)
  // As in JSON: dates of a database are text, and unsupported values are omitted.
  const values = JSON.parse(
    JSON.stringify(item.values, (_name, value) => (typeof value === 'bigint' ? String(value) : value)),
  )
  return {
    row: item.row,
    values,
    mapped: mapped.ok ? JSON.parse(JSON.stringify(mapped.content)) : null,
    errors: mapped.ok ? [] : mapped.faults.map(({ field, code, message }) => ({ field, code, message })),
  }
}
