import { z } from 'zod'
import { pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  apiKeyEventSchema,
  apiKeySchema,
  createApiKeyBodySchema,
  createdApiKeySchema,
  keyIdParams,
  listApiKeysQuery,
  revokeApiKeyBodySchema,
  revokedApiKeySchema,
  rotateApiKeyBodySchema,
  updateApiKeyBodySchema,
} from './api-key.ts'
import { bulkPreviewSchema, bulkReceiptSchema, changeKeysBodySchema, previewBulkBodySchema } from './bulk.ts'
import { explainBodySchema, explanationSchema } from './explain.ts'
import { findApiKeyBodySchema } from './key-value.ts'
import { keyHealthSchema } from './health.ts'
import { githubLabelsSchema } from './github-leak.ts'
import { maxBulkKeys } from './limits.ts'
import { leakReceiptSchema, reportLeakedKeysBodySchema } from './leak.ts'
import { memberSchema } from './member.ts'
import { keyPolicyEventSchema, keyPolicySchema, updateKeyPolicyBodySchema } from './policy.ts'
import { apiKeyUsageSchema, usageDays } from './usage.ts'

const base = {
  upstream: 'keys',
  tag: 'API keys',
  access: { kind: 'person', role: 'admin', acceptsMachines: true },
} as const

export const createApiKey = defineRoute({
  ...base,
  id: 'keys.create',
  method: 'POST',
  path: '/api/v1/api-keys',
  summary: 'Generate a key',
  description:
    'Send an `Idempotency-Key` so that a retry does not create another key. The policy of the tenant can forbid scopes and expiries.',
  body: createApiKeyBodySchema,
  answers: {
    201: { description: 'The key. Only this response contains its value.', schema: createdApiKeySchema },
  },
  problems: ['conflict', 'invalid_content', 'not_found'],
})

export const listApiKeys = defineRoute({
  ...base,
  id: 'keys.list',
  method: 'GET',
  path: '/api/v1/api-keys',
  summary: 'List keys',
  description: 'Filters can be combined.',
  query: listApiKeysQuery,
  answers: { 200: { description: 'Keys, newest first', schema: z.array(apiKeySchema) } },
})

export const getApiKey = defineRoute({
  ...base,
  id: 'keys.get',
  method: 'GET',
  path: '/api/v1/api-keys/:id',
  summary: 'Read a key',
  description: 'The `ETag` is needed to change the key.',
  params: keyIdParams,
  answers: { 200: { description: 'The key', schema: apiKeySchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const findApiKey = defineRoute({
  ...base,
  id: 'keys.find',
  method: 'POST',
  path: '/api/v1/api-keys/find',
  summary: 'Find a key by its value',
  description: 'For a key that turned up in a file, a log or a chat. The key may be in any state.',
  body: findApiKeyBodySchema,
  answers: { 200: { description: 'The key', schema: apiKeySchema } },
  problems: ['not_found'],
})

export const updateApiKey = defineRoute({
  ...base,
  id: 'keys.update',
  method: 'PATCH',
  path: '/api/v1/api-keys/:id',
  summary: 'Edit a key or narrow it',
  description:
    'A narrowing can be repeated: if the key is already that narrow, it is enforced again and the response is 200, even with an older `If-Match`.',
  params: keyIdParams,
  body: updateApiKeyBodySchema,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: {
    200: { description: 'The key; every gateway enforces a narrowing', schema: apiKeySchema },
  },
  problems: [
    'not_found',
    'conflict',
    'precondition_failed',
    'precondition_required',
    'invalid_content',
    'revocation_unconfirmed',
  ],
})

export const revokeApiKey = defineRoute({
  ...base,
  id: 'keys.revoke',
  method: 'POST',
  path: '/api/v1/api-keys/:id/revoke',
  summary: 'Revoke a key immediately and permanently',
  description: 'Responds when every gateway rejects the key in requests that arrive after the response.',
  params: keyIdParams,
  body: revokeApiKeyBodySchema.optional(),
  answers: {
    200: { description: 'The revoked key; the same response if it was already revoked', schema: revokedApiKeySchema },
  },
  problems: ['not_found', 'revocation_unconfirmed'],
})

export const rotateApiKey = defineRoute({
  ...base,
  id: 'keys.rotate',
  method: 'POST',
  path: '/api/v1/api-keys/:id/rotate',
  summary: 'Replace a key with a new one, with an overlap',
  description:
    'Only the response contains the value of the new key. Send an `Idempotency-Key` so that a retry does not create another key. If the response was lost, find the new key by its `rotated_from`.',
  params: keyIdParams,
  body: rotateApiKeyBodySchema.optional(),
  answers: { 201: { description: 'The new key; the old one expires after the overlap', schema: createdApiKeySchema } },
  problems: ['not_found', 'conflict', 'invalid_content', 'revocation_unconfirmed'],
})

export const previewBulk = defineRoute({
  ...base,
  id: 'keys.preview-bulk',
  method: 'POST',
  path: '/api/v1/api-keys/bulk/preview',
  summary: 'Preview a change of several keys',
  description: 'Lists the keys and who used them in the last 24 hours. Changes nothing.',
  body: previewBulkBodySchema,
  answers: { 200: { description: 'The keys', schema: bulkPreviewSchema } },
  problems: ['invalid_content'],
})

export const changeKeys = defineRoute({
  ...base,
  id: 'keys.bulk',
  method: 'POST',
  path: '/api/v1/api-keys/bulk',
  summary: 'Revoke, shorten, reassign or relabel several keys',
  description: `Changes all of the keys or none, at most ${maxBulkKeys}. Responds when every gateway enforces the change. Fails with 412 if one of the keys changed after the preview; a change that is already made can be repeated.`,
  body: changeKeysBodySchema,
  answers: { 200: { description: 'The receipt', schema: bulkReceiptSchema } },
  problems: ['conflict', 'precondition_failed', 'invalid_content', 'revocation_unconfirmed'],
})

export const listApiKeyEvents = defineRoute({
  ...base,
  id: 'keys.events',
  method: 'GET',
  path: '/api/v1/api-keys/:id/events',
  summary: "A key's audit trail",
  description: 'Each change of the key, with its time and the person, program or operator who made it.',
  params: keyIdParams,
  query: z.strictObject(pageQuery),
  answers: { 200: { description: 'Events, newest first', schema: z.array(apiKeyEventSchema) } },
  problems: ['not_found'],
})

export const getApiKeyUsage = defineRoute({
  ...base,
  id: 'keys.usage',
  method: 'GET',
  path: '/api/v1/api-keys/:id/usage',
  summary: 'How often a key was used and refused',
  description: `By day, route and address, over the last ${usageDays} days, with the last refusals. Accurate to one minute; requests that a crashed gateway had not reported are missing.`,
  params: keyIdParams,
  answers: { 200: { description: 'Its usage', schema: apiKeyUsageSchema } },
  problems: ['not_found'],
})

export const explainRequest = defineRoute({
  ...base,
  id: 'keys.explain',
  method: 'POST',
  path: '/api/v1/api-keys/:id/explain',
  summary: 'Explain whether a request with a key is accepted',
  description:
    'Decides about a request as a gateway would, step by step, with the present settings of the key. Nothing is sent, counted or changed. With `request_id` it explains a refusal that happened.',
  params: keyIdParams,
  body: explainBodySchema,
  answers: { 200: { description: 'The decision', schema: explanationSchema } },
  problems: ['not_found'],
})

export const getKeyHealth = defineRoute({
  ...base,
  id: 'keys.health',
  method: 'GET',
  path: '/api/v1/key-health',
  summary: 'Count the keys that need attention',
  description:
    'Counts active keys by reason; one key can have several. `GET /api-keys?health=…` lists them. Accurate to a minute.',
  answers: { 200: { description: 'The counts', schema: keyHealthSchema } },
})

export const reportLeakedKeys = defineRoute({
  ...base,
  id: 'keys.report-leak',
  access: { kind: 'public', cost: 20 },
  method: 'POST',
  path: '/api/v1/leaked-keys',
  summary: 'Report leaked keys, which revokes them',
  description:
    'For anyone who has found a key; no credentials are needed. Unknown, expired and revoked keys get the same response, after the same few seconds. A report can be repeated.',
  body: reportLeakedKeysBodySchema,
  maxBodyBytes: 16 * 1024,
  answers: { 202: { description: 'A receipt', schema: leakReceiptSchema, withoutHeaders: ['Location'] } },
})

export const reportGithubLeaks = defineRoute({
  ...base,
  id: 'keys.report-github-leak',
  access: { kind: 'public' },
  method: 'POST',
  path: '/api/v1/leaked-keys/github',
  summary: "Receive the reports of GitHub's secret scanning",
  description:
    "For GitHub's secret scanning partner program: a JSON list of matches with `token`, `type`, `url` and `source`, signed by GitHub. Keys among them are revoked. Each report is accepted once. 404 until the operator has set GitHub's public keys.",
  bodyMediaTypes: ['application/json'],
  maxBodyBytes: 256 * 1024,
  requestHeaders: {
    'Github-Public-Key-Identifier': {
      description: 'Which public key of GitHub verifies the signature',
      example: 'bcb53661',
    },
    'Github-Public-Key-Signature': {
      description: 'ECDSA P-256 with SHA-256 over the body, DER in base64',
      example: 'MEQ=',
    },
  },
  answers: { 200: { description: 'Which matches are keys', schema: githubLabelsSchema } },
  problems: [
    'not_found',
    'conflict',
    'malformed_json',
    'invalid_content',
    'content_too_large',
    'unsupported_media_type',
  ],
})

export const getKeyPolicy = defineRoute({
  ...base,
  id: 'keys.policy',
  method: 'GET',
  path: '/api/v1/key-policy',
  summary: 'Read the rules for keys',
  description: 'New and rotated keys must comply with these rules.',
  answers: { 200: { description: 'The policy', schema: keyPolicySchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const updateKeyPolicy = defineRoute({
  ...base,
  id: 'keys.change-policy',
  access: { kind: 'person', role: 'admin' },
  method: 'PATCH',
  path: '/api/v1/key-policy',
  summary: 'Change the rules for keys',
  description:
    'Existing keys do not change, except that `revoke_idle_days` revokes idle keys. Keys that are created or rotated afterwards must comply.',
  body: updateKeyPolicyBodySchema,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: { 200: { description: 'The policy', schema: keyPolicySchema } },
  problems: ['not_found', 'precondition_failed', 'precondition_required', 'invalid_content'],
})

export const listKeyPolicyEvents = defineRoute({
  ...base,
  id: 'keys.policy-events',
  method: 'GET',
  path: '/api/v1/key-policy/events',
  summary: 'List the changes of the policy',
  description: 'Each change has its time and the person who made it.',
  query: z.strictObject(pageQuery),
  answers: { 200: { description: 'Changes, newest first', schema: z.array(keyPolicyEventSchema) } },
})

export const listMembers = defineRoute({
  ...base,
  tag: 'Access',
  id: 'keys.list-members',
  method: 'GET',
  path: '/api/v1/members',
  summary: 'List the people who have signed in',
  description: 'Read only: the identity provider decides who belongs to the tenant and with which roles.',
  query: z.strictObject(pageQuery),
  answers: { 200: { description: 'People, in the order of their ids', schema: z.array(memberSchema) } },
})

export const keysRoutes = [
  createApiKey,
  listApiKeys,
  getApiKey,
  findApiKey,
  updateApiKey,
  revokeApiKey,
  rotateApiKey,
  previewBulk,
  changeKeys,
  listApiKeyEvents,
  getApiKeyUsage,
  explainRequest,
  getKeyHealth,
  reportLeakedKeys,
  reportGithubLeaks,
  getKeyPolicy,
  updateKeyPolicy,
  listKeyPolicyEvents,
  listMembers,
] as const
