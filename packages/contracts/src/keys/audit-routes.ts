import { z } from 'zod'
import { defineRoute } from '../route.ts'
import { auditEventSchema, listAuditEventsQuery } from './audit.ts'

const base = {
  upstream: 'keys',
  tag: 'Audit feed',
  access: { kind: 'person', role: 'auditor', acceptsMachines: true },
} as const

export const listAuditEvents = defineRoute({
  ...base,
  id: 'keys.list-audit-events',
  method: 'GET',
  path: '/api/v1/audit-events',
  summary: 'List audit events',
  description:
    'Who did what with keys, their policy, evidence, connectors, webhooks, people of the directory and the tenant, and who signed in. To copy the feed, request `order=oldest` and send the `position` of the last event as `after`: you miss no event. Kept for `audit_retention_days` of the key policy; an older `after` returns 410.',
  query: listAuditEventsQuery,
  answers: { 200: { description: 'Events, newest first', schema: z.array(auditEventSchema) } },
  problems: ['cursor_expired'],
})

export const auditRoutes = [listAuditEvents] as const
