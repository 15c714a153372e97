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
import { type PartialList, readFirstPage } from './list.ts'
import { type RequestOptions, request, send } from './request.ts'

export type { Connector, ConnectorTest, MappingRule, Run, RunChange, RunError }
export type NewConnector = CreateConnectorBody
export type ConnectorChange = UpdateConnectorBody

type Reading = Pick<RequestOptions, 'signal' | 'isAutomatic'>

export async function listConnectors(reading: Reading): Promise<PartialList<Connector>> {
  return await readFirstPage('/api/v1/connectors?limit=1000', reading)
}

export async function listRuns(reading: Reading, key?: string): Promise<PartialList<Run>> {
  const of = key === undefined ? '' : `&connector=${encodeURIComponent(key)}`
  return await readFirstPage(`/api/v1/sync-runs?limit=50${of}`, reading)
}

export interface TaggedConnector {
  readonly connector: Connector
  readonly etag: string
}

const connectorPath = (id: string) => `/api/v1/connectors/${encodeURIComponent(id)}`

export async function getConnector(id: string, reading: Reading = {}): Promise<TaggedConnector> {
  const { body, headers } = await request<Connector>(connectorPath(id), reading)
  return { connector: body, etag: headers.get('etag') ?? '' }
}

/** The same `attempt` creates no second connector. */
export async function createConnector(body: NewConnector, attempt: string, signal: AbortSignal): Promise<Connector> {
  const headers = { 'idempotency-key': attempt }
  return (await request<Connector>('/api/v1/connectors', { method: 'POST', body, headers, signal })).body
}

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

export async function retireConnector(id: string, signal: AbortSignal): Promise<void> {
  await send(connectorPath(id), { method: 'DELETE', signal })
}

/** Returns what the first rows become. Stores nothing. */
export async function testConnector(id: string, file: File | undefined, signal: AbortSignal): Promise<ConnectorTest> {
  const options = { method: 'POST' as const, signal, ...(file === undefined ? {} : { file }) }
  return (await request<ConnectorTest>(`${connectorPath(id)}/test`, options)).body
}

const pathOf = (id: string) => `/api/v1/sync-runs/${encodeURIComponent(id)}`

export async function getRun(id: string, reading: Reading = {}): Promise<Run> {
  return (await request<Run>(pathOf(id), reading)).body
}

export function eventsOf(id: string): string {
  return publicPath(`${pathOf(id)}/events`)
}

export const listedChanges = 200

export async function listChanges(id: string, signal: AbortSignal): Promise<PartialList<RunChange>> {
  return await readFirstPage(`${pathOf(id)}/changes?limit=${listedChanges}`, { signal })
}

export async function listRunErrors(id: string, reading: Reading): Promise<PartialList<RunError>> {
  return await readFirstPage(`${pathOf(id)}/errors?limit=200`, reading)
}

/** The same `attempt` starts no second run. */
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

export async function approveRun({ id, diff_hash: hash }: Run, reason: string, signal: AbortSignal): Promise<Run> {
  const body = { diff_hash: hash, ...(reason === '' ? {} : { reason }) }
  return (await request<Run>(`${pathOf(id)}/approve`, { method: 'POST', body, signal })).body
}

export async function cancelRun(id: string, signal: AbortSignal): Promise<Run> {
  return (await request<Run>(`${pathOf(id)}/cancel`, { method: 'POST', signal })).body
}

export async function rollbackRun(id: string, signal: AbortSignal): Promise<Run> {
  return (await request<Run>(`${pathOf(id)}/rollback`, { method: 'POST', body: {}, signal })).body
}
