import { z } from 'zod'
import { timestampSchema, uuidSchema } from '../common.ts'
import { pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import type { NamedScope } from '../scope.ts'

/** What the feed tells of, and the scope that reads it: a caller without the scope is not told that there was a change. */
export const changeKinds = {
  finding: 'read:findings',
  recommendation: 'read:findings',
  action_plan: 'read:findings',
  log_entry: 'read:findings',
  entity: 'read:universe',
  hierarchy: 'read:universe',
  hierarchy_node: 'read:universe',
  person: 'read:universe',
  test_procedure: 'read:universe',
} as const satisfies Readonly<Record<string, NamedScope>>
export type ChangeKind = keyof typeof changeKinds

/** Where the resource of a change is read: `{id}` stands for the change's. */
export const changePaths: Readonly<Record<ChangeKind, string>> = {
  finding: '/api/v1/findings/{id}',
  recommendation: '/api/v1/recommendations/{id}',
  action_plan: '/api/v1/action-plans/{id}',
  log_entry: '/api/v1/findings/{id}/log',
  entity: '/api/v1/entities/{id}',
  hierarchy: '/api/v1/hierarchies/{id}',
  hierarchy_node: '/api/v1/hierarchy-nodes/{id}',
  person: '/api/v1/people/{id}',
  test_procedure: '/api/v1/test-procedures/{id}',
}

const kinds = z.enum(Object.keys(changeKinds).filter((kind): kind is ChangeKind => kind in changeKinds))

/** How long a change is kept, in days. */
export const changesKeptDays = 30

export const changeSchema = z
  .object({
    kind: kinds,
    id: uuidSchema.meta({ description: 'Of the resource; of a `log_entry` that of its finding' }),
    change: z.enum(['created', 'updated', 'deleted']),
    version: z.int().nullable().meta({ description: 'Of the resource after the change; null where it has none' }),
    changed_at: timestampSchema.meta({ description: 'When the change was committed' }),
  })
  .meta({
    id: 'Change',
    examples: [
      {
        kind: 'finding',
        id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
        change: 'updated',
        version: 3,
        changed_at: '2026-11-21T09:30:00.000Z',
      },
    ],
  })
export type Change = z.infer<typeof changeSchema>

export const listChanges = defineRoute({
  id: 'findings.list-changes',
  method: 'GET',
  path: '/api/v1/changes',
  upstream: 'findings',
  access: { kind: 'any-scope', scopes: ['read:findings', 'read:universe'] },
  tag: 'Changes',
  summary: 'Follow what changes',
  description: `Every change of a resource that the caller may read, in the order of their commits, deletions included. Follow \`rel="next"\` of \`Link\`, which is always there, for as long as you like: the feed leaves nothing out, and may repeat a change. Where half a million changes lie between that the caller may not read, a page is empty before the end: at the end the link stays the same. To begin, ask with \`since=now\`, keep the link, read the lists, and follow the link from then on. Changes are kept for ${changesKeptDays} days; a cursor of before is answered with 410, and so is one of a time that a restore of the database has undone: begin anew.

What has changed is read where its kind is: ${Object.entries(changePaths)
    .map(([kind, path]) => `\`${kind}\` at \`${path}\``)
    .join(', ')}. Of a log, the entry is the one behind those that you know (\`after_seq\`).`,
  query: z.strictObject({
    limit: pageQuery.limit,
    since: z.string().min(1).max(200).optional().meta({
      description:
        'Opaque, from the Link header of the page before; `now` for the end of the feed. Absent: all that is kept',
    }),
  }),
  answers: {
    200: {
      description: 'Changes, oldest first',
      schema: z.array(changeSchema),
      headers: { Link: 'The link to go on with (RFC 8288), always' },
    },
  },
  problems: ['cursor_expired'],
})

export const changesRoutes = [listChanges] as const
