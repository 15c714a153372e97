import { z } from 'zod'
import { line } from '../common.ts'
import { pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  connectorParams,
  connectorSchema,
  createConnectorBodySchema,
  missingRowSchema,
  updateConnectorBodySchema,
} from './connector.ts'
import {
  approveBodySchema,
  connectorTestSchema,
  listChangesQuery,
  listErrorsQuery,
  listRunsQuery,
  rollbackBodySchema,
  runChangeSchema,
  runErrorSchema,
  runParams,
  runSchema,
  startRunQuery,
} from './run.ts'

const base = { upstream: 'sync', tag: 'Sync', access: { kind: 'scope', scope: 'admin:sync' } } as const

const noForms =
  'The file is a table of text (CSV) or an Excel workbook (`.xlsx`). Its media type can be that of any such file, or absent. Forms (`multipart/form-data`), JSON and similar types return 415.'

/** Only a connector for uploads takes a body. */
const fileBody = {
  bodyMediaTypes: ['*/*'],
  maxBodyBytes: 512 * 1024 * 1024,
  assertionSeconds: 270,
} as const

export const listConnectors = defineRoute({
  ...base,
  id: 'sync.list-connectors',
  method: 'GET',
  path: '/api/v1/connectors',
  summary: 'List connectors',
  description: 'Shows the schedule and the last run of each. Secrets are never returned.',
  query: z.strictObject({ ...pageQuery, key: line(1, 64).optional() }),
  answers: { 200: { description: 'Connectors, by key', schema: z.array(connectorSchema) } },
})

/** Sent to another system, so the texts are not normalized. */
const keptAsSent = ['config', 'secrets'] as const

export const createConnector = defineRoute({
  ...base,
  id: 'sync.create-connector',
  method: 'POST',
  path: '/api/v1/connectors',
  summary: 'Set up a connector',
  description:
    'Secrets are stored encrypted and never returned. A request that is repeated with its `Idempotency-Key` returns 409, because the response is not stored.',
  body: createConnectorBodySchema,
  exactMembers: keptAsSent,
  answers: { 201: { description: 'The connector', schema: connectorSchema } },
  problems: ['invalid_content', 'conflict'],
})

export const getConnector = defineRoute({
  ...base,
  id: 'sync.get-connector',
  method: 'GET',
  path: '/api/v1/connectors/:id',
  summary: 'Read a connector',
  description: 'Runs and the schedule change the ETag, too.',
  params: connectorParams,
  answers: { 200: { description: 'The connector', schema: connectorSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const updateConnector = defineRoute({
  ...base,
  id: 'sync.update-connector',
  method: 'PATCH',
  path: '/api/v1/connectors/:id',
  summary: 'Change a connector',
  description:
    'JSON Merge Patch (RFC 7396) with If-Match. Returns 412 if somebody changed the connector since it was read. Runs and the schedule also change the ETag (`last_run_at`, `next_run_at`, `consecutive_failures`, `state` `error` and back), but If-Match still accepts the previous one. A run that waits for approval does not change.',
  params: connectorParams,
  body: updateConnectorBodySchema,
  exactMembers: keptAsSent,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: { 200: { description: 'The connector', schema: connectorSchema } },
  problems: ['not_found', 'conflict', 'precondition_failed', 'precondition_required', 'invalid_content'],
})

export const deleteConnector = defineRoute({
  ...base,
  id: 'sync.delete-connector',
  method: 'DELETE',
  path: '/api/v1/connectors/:id',
  summary: 'Retire a connector',
  description:
    'Deletes its secrets and ends its schedule. Its runs and resources remain, but it is no longer the `source` of entities. Returns 503 while the universe service is unavailable.',
  params: connectorParams,
  answers: { 204: { description: 'Retired' } },
  problems: ['not_found', 'run_in_progress'],
})

export const listMissing = defineRoute({
  ...base,
  id: 'sync.list-missing',
  method: 'GET',
  path: '/api/v1/connectors/:id/missing',
  summary: 'List the rows that are missing from the source of a connector',
  description:
    'Rows that an applied run no longer found in the source, or that a rollback undid, and that no other connector delivers. A row leaves the list when the source has it again. With `missing_policy` `deactivate`, a missing row makes its resource inactive.',
  params: connectorParams,
  query: z.strictObject({ ...pageQuery }),
  answers: { 200: { description: 'Rows, by key', schema: z.array(missingRowSchema) } },
  problems: ['not_found'],
})

export const testConnector = defineRoute({
  ...base,
  ...fileBody,
  id: 'sync.test-connector',
  method: 'POST',
  path: '/api/v1/connectors/:id/test',
  summary: 'Test a connector',
  description: `Reads at most 20 rows, maps them and stores nothing. A connector for uploads reads the file in the body. ${noForms}`,
  params: connectorParams,
  answers: { 200: { description: 'The rows, and what they would become', schema: connectorTestSchema } },
  problems: ['not_found', 'invalid_content', 'content_too_large', 'unsupported_media_type', 'bad_gateway'],
})

export const startRun = defineRoute({
  ...base,
  ...fileBody,
  id: 'sync.start-run',
  method: 'POST',
  path: '/api/v1/connectors/:id/runs',
  summary: 'Run a connector',
  description: `A worker executes the queued run; follow it at its own address. A connector for uploads reads the file in the body of this request. ${noForms} If the file does not match its Content-Digest, no run starts. A run of the connector that waits for approval is superseded.`,
  params: connectorParams,
  query: startRunQuery,
  answers: {
    202: { description: 'The run', schema: runSchema },
  },
  problems: [
    'not_found',
    'run_in_progress',
    'conflict',
    'invalid_content',
    'content_too_large',
    'unsupported_media_type',
    'digest_mismatch',
    'request_timeout',
  ],
})

export const listRuns = defineRoute({
  ...base,
  id: 'sync.list-runs',
  method: 'GET',
  path: '/api/v1/sync-runs',
  summary: 'List runs',
  description: 'The runs of all connectors; filters select one connector or a state.',
  query: listRunsQuery,
  answers: { 200: { description: 'Runs, newest first', schema: z.array(runSchema) } },
})

export const getRun = defineRoute({
  ...base,
  id: 'sync.get-run',
  method: 'GET',
  path: '/api/v1/sync-runs/:id',
  summary: 'Read a run',
  description: 'The counts are live while the run is in progress.',
  params: runParams,
  answers: { 200: { description: 'The run', schema: runSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const listRunChanges = defineRoute({
  ...base,
  id: 'sync.list-run-changes',
  method: 'GET',
  path: '/api/v1/sync-runs/:id/changes',
  summary: 'List the changes of a run',
  description: 'Before approval, what the run will change; afterwards, what it changed.',
  params: runParams,
  query: listChangesQuery,
  answers: {
    200: { description: 'Changes in the order of their application', schema: z.array(runChangeSchema) },
  },
  problems: ['not_found'],
})

export const listRunErrors = defineRoute({
  ...base,
  id: 'sync.list-run-errors',
  method: 'GET',
  path: '/api/v1/sync-runs/:id/errors',
  summary: 'List the errors of a run',
  description: 'Request `text/csv` to send the list to the owner of the data.',
  params: runParams,
  query: listErrorsQuery,
  answers: { 200: { description: 'Errors', schema: z.array(runErrorSchema) } },
  problems: ['not_found'],
})

export const followRun = defineRoute({
  ...base,
  id: 'sync.follow-run',
  method: 'GET',
  path: '/api/v1/sync-runs/:id/events',
  summary: 'Follow a run',
  description:
    'Server-sent events: `run` with the run as JSON at every change, `end` at the end. A stream lasts 50 seconds at most; reconnect until `end`. Each stream begins with the current run, so `Last-Event-ID` is ignored.',
  params: runParams,
  answers: { 200: { description: 'Events', mediaType: 'text/event-stream' } },
  problems: ['not_found'],
})

export const approveRun = defineRoute({
  ...base,
  id: 'sync.approve-run',
  method: 'POST',
  path: '/api/v1/sync-runs/:id/approve',
  summary: 'Approve the changes of a run',
  description:
    'Applies exactly the reviewed changes. If they are out of date, nothing is applied: the response is 409 `diff_stale`, or the run fails with `diff_stale` later. Then cancel the run and run the connector again. A run can be approved while its connector is paused.',
  params: runParams,
  body: approveBodySchema,
  answers: { 202: { description: 'The run', schema: runSchema, withoutHeaders: ['Location'] } },
  problems: ['not_found', 'invalid_transition', 'diff_stale', 'run_in_progress', 'invalid_content'],
})

export const cancelRun = defineRoute({
  ...base,
  id: 'sync.cancel-run',
  method: 'POST',
  path: '/api/v1/sync-runs/:id/cancel',
  summary: 'Cancel a run',
  description: 'Changes that were already applied remain; a rollback undoes them.',
  params: runParams,
  answers: { 202: { description: 'The run', schema: runSchema, withoutHeaders: ['Location'] } },
  problems: ['not_found', 'invalid_transition'],
})

export const rollbackRun = defineRoute({
  ...base,
  id: 'sync.rollback-run',
  method: 'POST',
  path: '/api/v1/sync-runs/:id/rollback',
  summary: 'Undo the changes of a run',
  description:
    'Starts a run with the inverse changes. Created resources become inactive, and an e-mail address returns to the person who had it before. Changes that are already undone are left out. If more people become inactive than `safety` allows, the new run waits for approval. If later runs changed the same resources, nothing is undone: the response is 409 `diff_stale`, or, beyond the first 20,000 changes, the new run fails with `diff_stale`. A push cannot be rolled back: push the earlier rows again.',
  params: runParams,
  body: rollbackBodySchema,
  answers: {
    202: { description: 'The new run', schema: runSchema },
  },
  problems: ['not_found', 'invalid_transition', 'diff_stale', 'run_in_progress', 'invalid_content'],
})

export const connectorRoutes = [
  listConnectors,
  createConnector,
  getConnector,
  updateConnector,
  deleteConnector,
  listMissing,
  testConnector,
  startRun,
  listRuns,
  getRun,
  listRunChanges,
  listRunErrors,
  followRun,
  approveRun,
  cancelRun,
  rollbackRun,
] as const
