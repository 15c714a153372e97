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

/** What a service refuses of the types that a file may be sent as. */
const noForms =
  'Of any type that a table of text may have, or of none: a form (`multipart/form-data`), JSON and the like are 415.'

/** The file that a connector for uploads reads; the others take no body. */
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
  query: z.strictObject({ ...pageQuery, key: line(1, 64).optional() }),
  answers: { 200: { description: 'Connectors, by key', schema: z.array(connectorSchema) } },
})

/** What is sent on to another system, whose texts are its own matter. */
const keptAsSent = ['config', 'secrets'] as const

export const createConnector = defineRoute({
  ...base,
  id: 'sync.create-connector',
  method: 'POST',
  path: '/api/v1/connectors',
  summary: 'Set up a connector',
  description: 'Secrets are kept encrypted and never answered; nothing of the request is kept for a repetition.',
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
  description: 'The ETag changes with all that is answered, also by a run or the schedule.',
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
    'JSON Merge Patch (RFC 7396) with If-Match. 412 where somebody has changed the connector since it was read; what runs and the schedule change (`last_run_at`, `next_run_at`, `consecutive_failures`, `state` `error` and back) makes another ETag, and the one before still holds for If-Match. A run that waits for approval stays as it is.',
  params: connectorParams,
  body: updateConnectorBodySchema,
  exactMembers: keptAsSent,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: { 200: { description: 'The connector as it is now', schema: connectorSchema } },
  problems: ['not_found', 'conflict', 'precondition_failed', 'precondition_required', 'invalid_content'],
})

export const deleteConnector = defineRoute({
  ...base,
  id: 'sync.delete-connector',
  method: 'DELETE',
  path: '/api/v1/connectors/:id',
  summary: 'Retire a connector',
  description:
    'Its secrets are erased and its schedule ends. Its runs stay and keep its key, and what it has brought stays as it is, but for `source` of entities: it is none any more. 503 while the universe cannot be told so.',
  params: connectorParams,
  answers: { 204: { description: 'Retired' } },
  problems: ['not_found', 'run_in_progress'],
})

export const listMissing = defineRoute({
  ...base,
  id: 'sync.list-missing',
  method: 'GET',
  path: '/api/v1/connectors/:id/missing',
  summary: 'List what the source of a connector has no longer',
  description:
    'What the connector has brought, and no other, and a run that applied its changes did not find again, until it is back; what a rollback has taken back as well, until that is undone itself before the source is read again. With `missing_policy` `deactivate` it is inactive in the universe; else it stays there as it is.',
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
  summary: 'Try a connector',
  description: `Reads at most 20 rows, maps them and stores nothing. A connector for uploads reads the body: the file itself. ${noForms}`,
  params: connectorParams,
  answers: { 200: { description: 'What was read and what it becomes', schema: connectorTestSchema } },
  problems: ['not_found', 'invalid_content', 'content_too_large', 'unsupported_media_type', 'bad_gateway'],
})

export const startRun = defineRoute({
  ...base,
  ...fileBody,
  id: 'sync.start-run',
  method: 'POST',
  path: '/api/v1/connectors/:id/runs',
  summary: 'Run a connector',
  description: `The run is queued and carried out by a worker; follow it at its own address. A connector for uploads reads the body of this request: the file itself. ${noForms} A file that is not the one that its Content-Digest announces begins no run. A run of the connector that waits for approval is superseded.`,
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
  query: listRunsQuery,
  answers: { 200: { description: 'Runs, newest first', schema: z.array(runSchema) } },
})

export const getRun = defineRoute({
  ...base,
  id: 'sync.get-run',
  method: 'GET',
  path: '/api/v1/sync-runs/:id',
  summary: 'Read a run',
  description: 'The counts are live while a worker carries it out.',
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
  params: runParams,
  query: listChangesQuery,
  answers: {
    200: { description: 'Changes, in the order in which they are applied', schema: z.array(runChangeSchema) },
  },
  problems: ['not_found'],
})

export const listRunErrors = defineRoute({
  ...base,
  id: 'sync.list-run-errors',
  method: 'GET',
  path: '/api/v1/sync-runs/:id/errors',
  summary: 'List the errors of a run',
  description: 'As CSV, for the owner of the data: ask for `text/csv`.',
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
    'Server-sent events: `run` with the run as JSON whenever it has changed, `end` when nothing follows. A stream lasts 50 seconds at most; connect again until `end`. Each begins with the run as it is: `Last-Event-ID` is not needed, and not read.',
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
    'Exactly the changes that were reviewed are applied. When the universe has changed meanwhile so that they would be others, nothing is applied: this is 409 `diff_stale` and the run waits on, to be cancelled; where that is seen only behind the answer, the run fails with `diff_stale`. Run the connector again. A run can be approved while its connector is paused: a pause keeps new runs from beginning.',
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
  description: 'What was applied before stays; a rollback undoes it.',
  params: runParams,
  answers: { 202: { description: 'The run', schema: runSchema, withoutHeaders: ['Location'] } },
  problems: ['not_found', 'invalid_transition'],
})

export const rollbackRun = defineRoute({
  ...base,
  id: 'sync.rollback-run',
  method: 'POST',
  path: '/api/v1/sync-runs/:id/rollback',
  summary: 'Undo what a run has applied',
  description:
    'A new run with the inverse changes, as far as they are not undone already, as long as nothing newer stands in what it changed: a later run that was undone itself does not. What the run has made becomes inactive; a person gives up an address that goes back to who had it before. What later runs have made of the first 20,000 changes is looked at before the answer (409 `diff_stale`); where something newer is seen only behind it, the new run fails with `diff_stale` and undoes nothing. Not of a push: push the rows as they are to be.',
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
