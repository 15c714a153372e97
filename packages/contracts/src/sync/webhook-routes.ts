import { z } from 'zod'
import { pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  createWebhookBodySchema,
  rotateWebhookSecretBodySchema,
  sendWebhookBodySchema,
  updateWebhookBodySchema,
  webhookDeliverySchema,
  webhookDeliveryStates,
  webhookLogDays,
  webhookParams,
  webhookRetryDays,
  webhookSchema,
} from './webhook.ts'

const base = { upstream: 'sync', tag: 'Webhooks', access: { kind: 'person', role: 'admin' } } as const

export const createWebhook = defineRoute({
  ...base,
  id: 'sync.create-webhook',
  method: 'POST',
  path: '/api/v1/webhooks',
  summary: 'Set up an endpoint for events',
  description: `Events that are committed after the response are sent with \`POST\`, signed as Standard Webhooks 1.0 describes, at least once. Events of one resource arrive in order unless one of them is given up. Failed deliveries are retried for ${webhookRetryDays} days.`,
  body: createWebhookBodySchema,
  answers: {
    201: { description: 'The endpoint. Only this response contains its secret.', schema: webhookSchema },
  },
  problems: ['invalid_content', 'conflict'],
})

export const listWebhooks = defineRoute({
  ...base,
  id: 'sync.list-webhooks',
  method: 'GET',
  path: '/api/v1/webhooks',
  summary: 'List endpoints for events',
  description: 'Each with its state, the deliveries that wait, and the last 20 changes.',
  query: z.strictObject(pageQuery),
  answers: { 200: { description: 'Endpoints, by id', schema: z.array(webhookSchema) } },
})

export const getWebhook = defineRoute({
  ...base,
  id: 'sync.get-webhook',
  method: 'GET',
  path: '/api/v1/webhooks/:id',
  summary: 'Read an endpoint for events',
  description: 'Its state, the deliveries that wait, and the last 20 changes.',
  params: webhookParams,
  answers: { 200: { description: 'The endpoint', schema: webhookSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const updateWebhook = defineRoute({
  ...base,
  id: 'sync.update-webhook',
  method: 'PATCH',
  path: '/api/v1/webhooks/:id',
  summary: 'Change, enable or disable an endpoint for events',
  description: 'An endpoint that is not enabled gets no new deliveries. Enabling it sends the deliveries that waited.',
  params: webhookParams,
  body: updateWebhookBodySchema,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: { 200: { description: 'The endpoint', schema: webhookSchema } },
  problems: ['not_found', 'invalid_content', 'precondition_failed', 'precondition_required'],
})

export const deleteWebhook = defineRoute({
  ...base,
  id: 'sync.delete-webhook',
  method: 'DELETE',
  path: '/api/v1/webhooks/:id',
  summary: 'Delete an endpoint for events',
  description: 'Deliveries that wait are dropped.',
  params: webhookParams,
  answers: { 204: { description: 'Deleted' } },
  problems: ['not_found'],
})

export const rotateWebhookSecret = defineRoute({
  ...base,
  id: 'sync.rotate-webhook-secret',
  method: 'POST',
  path: '/api/v1/webhooks/:id/rotate-secret',
  summary: 'Replace the secret of an endpoint, with an overlap',
  description: 'During the overlap, deliveries have a signature with each of the two secrets.',
  params: webhookParams,
  body: rotateWebhookSecretBodySchema.optional(),
  answers: {
    200: { description: 'The endpoint. Only this response contains its secret.', schema: webhookSchema },
  },
  problems: ['not_found', 'conflict'],
})

export const listWebhookDeliveries = defineRoute({
  ...base,
  id: 'sync.list-webhook-deliveries',
  method: 'GET',
  path: '/api/v1/webhooks/:id/deliveries',
  summary: 'List the deliveries to an endpoint',
  description: `Deliveries are listed for ${webhookLogDays} days.`,
  params: webhookParams,
  query: z.strictObject({ ...pageQuery, state: webhookDeliveryStates.optional() }),
  answers: { 200: { description: 'Deliveries, newest first', schema: z.array(webhookDeliverySchema) } },
  problems: ['not_found'],
})

export const sendWebhook = defineRoute({
  ...base,
  id: 'sync.send-webhook',
  method: 'POST',
  path: '/api/v1/webhooks/:id/deliveries',
  summary: 'Send a test event, or a delivery again',
  description: 'A delivery that is sent again keeps its `webhook-id`.',
  params: webhookParams,
  body: sendWebhookBodySchema.optional(),
  answers: { 200: { description: 'The delivery, which waits', schema: webhookDeliverySchema } },
  problems: ['not_found', 'conflict'],
})

export const webhookRoutes = [
  createWebhook,
  listWebhooks,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  listWebhookDeliveries,
  sendWebhook,
] as const
