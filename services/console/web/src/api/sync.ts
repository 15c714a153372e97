import type {
  Connector,
  ConnectorTest,
  CreateConnectorBody,
  MappingRule,
  Run,
  RunChange,
  RunError,
  UpdateConnectorBody,
} from '@postern/contracts'
import { publicPath } from '../base-path.ts'
import { nextPage } from './keys.ts'
import { type RequestOptions, request, send } from './request.ts'

export type { Connector, ConnectorTest, MappingRule, Run, RunChange, RunError }
export type NewConnector = CreateConnectorBody
export type ConnectorChange = UpdateConnectorBody

/** A first page, and whether there is more. */
export interface Some<T> {
  readonly items: readonly T[]
  readonly hasMore: boolean
}

type Reading = Pick<RequestOptions, 'signal' | 'isByItself'>

async function readSome<T>(path: string, reading: Reading): Promise<Some<T>> {
  const { body, headers } = await request<readonly T[]>(path, reading)
  return { items: body, hasMore: nextPage(headers.get('link')) !== undefined }
}

/** Connectors by key: there are few. */
export async function listConnectors(reading: Reading): Promise<Some<Connector>> {
  return await readSome('/api/v1/connectors?limit=1000', reading)
}

/** The newest runs: of all connectors, or of the one with this key. */
export async function listRuns(reading: Reading, key?: string): Promise<Some<Run>> {
  const of = key === undefined ? '' : `&connector=${encodeURIComponent(key)}`
  return await readSome(`/api/v1/sync-runs?limit=50${of}`, reading)
}

/** A connector, and the tag by which a change of it says what it is a change of. */
export interface TaggedConnector {
  readonly connector: Connector
  readonly etag: string
}

const connectorPath = (id: string) => `/api/v1/connectors/${encodeURIComponent(id)}`

export async function getConnector(id: string, reading: Reading = {}): Promise<TaggedConnector> {
  const { body, headers } = await request<Connector>(connectorPath(id), reading)
  return { connector: body, etag: headers.get('etag') ?? '' }
}

/** Sets up a connector. `attempt` names the person's one decision: repeated after a broken connection it makes no second one. */
export async function createConnector(body: NewConnector, attempt: string, signal: AbortSignal): Promise<Connector> {
  const headers = { 'idempotency-key': attempt }
  return (await request<Connector>('/api/v1/connectors', { method: 'POST', body, headers, signal })).body
}

/** Changes a connector, if nobody else has since it was read. */
export async function changeConnector(
  id: string,
  change: ConnectorChange,
  etag: string,
  signal: AbortSignal,
): Promise<TaggedConnector> {
  const { body, headers } = await request<Connector>(connectorPath(id), {
    method: 'PATCH',
    body: change,
    headers: { 'if-match': etag },
    signal,
  })
  return { connector: body, etag: headers.get('etag') ?? '' }
}

/** Ends a connector: its secrets are erased, and what it has brought stays. */
export async function retireConnector(id: string, signal: AbortSignal): Promise<void> {
  await send(connectorPath(id), { method: 'DELETE', signal })
}

/** Reads the first rows of the source and tells what they become; nothing is stored. */
export async function testConnector(id: string, file: File | undefined, signal: AbortSignal): Promise<ConnectorTest> {
  const options = { method: 'POST' as const, signal, ...(file === undefined ? {} : { file }) }
  return (await request<ConnectorTest>(`${connectorPath(id)}/test`, options)).body
}

const pathOf = (id: string) => `/api/v1/sync-runs/${encodeURIComponent(id)}`

export async function getRun(id: string, reading: Reading = {}): Promise<Run> {
  return (await request<Run>(pathOf(id), reading)).body
}

/** Where the browser follows a run (server-sent events). */
export function eventsOf(id: string): string {
  return publicPath(`${pathOf(id)}/events`)
}

/** How many changes of a run its page lists. */
export const listedChanges = 200

export async function listChanges(id: string, signal: AbortSignal): Promise<Some<RunChange>> {
  return await readSome(`${pathOf(id)}/changes?limit=${listedChanges}`, { signal })
}

export async function listRunErrors(id: string, reading: Reading): Promise<Some<RunError>> {
  return await readSome(`${pathOf(id)}/errors?limit=200`, reading)
}

/** Starts a run; `file` is what a connector for uploads reads. `attempt` names the person's one decision. */
export async function startRun(
  connector: string,
  { mode, file }: { readonly mode: 'dry_run' | 'apply'; readonly file: File | undefined },
  attempt: string,
  signal: AbortSignal,
): Promise<Run> {
  const path = `/api/v1/connectors/${encodeURIComponent(connector)}/runs?mode=${mode}`
  const headers = { 'idempotency-key': attempt }
  return (await request<Run>(path, { method: 'POST', headers, signal, ...(file === undefined ? {} : { file }) })).body
}

/** Applies exactly the changes that were looked at. */
export async function approveRun({ id, diff_hash: hash }: Run, reason: string, signal: AbortSignal): Promise<Run> {
  const body = { diff_hash: hash, ...(reason === '' ? {} : { reason }) }
  return (await request<Run>(`${pathOf(id)}/approve`, { method: 'POST', body, signal })).body
}

export async function cancelRun(id: string, signal: AbortSignal): Promise<Run> {
  return (await request<Run>(`${pathOf(id)}/cancel`, { method: 'POST', signal })).body
}

/** Undoes what a run has applied, by a run of its own. */
export async function rollbackRun(id: string, signal: AbortSignal): Promise<Run> {
  return (await request<Run>(`${pathOf(id)}/rollback`, { method: 'POST', body: {}, signal })).body
}
