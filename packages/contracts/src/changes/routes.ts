import { z } from 'zod'
import { timestampSchema, uuidSchema } from '../common.ts'
import { csvQuery, formQuery, pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import type { NamedScope } from '../scope.ts'

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

/** `{id}` is the id of the change. */
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

const nextSinceHeader = 'Postern-Next-Since'

export const changesKeptDays = 30

export const changeSchema = z
  .object({
    kind: kinds,
    id: uuidSchema.meta({ description: 'The id of the resource, or of the finding of a `log_entry`' }),
    change: z.enum(['created', 'updated', 'deleted']).meta({ id: 'ChangeAction' }),
    version: z
      .int()
      .nullable()
      .meta({ description: 'The version of the resource after the change; null if it has no version' }),
    changed_at: timestampSchema.meta({ description: 'When the change was committed' }),
    position: z.string().meta({ description: 'Its place in the feed: `since` continues after it' }),
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
        position: 'WzEsNDIsMV0',
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
  summary: 'Follow changes',
  description: `Every change, including deletions, of the resources that the caller can read, in commit order. Follow \`rel="next"\` of \`Link\` until it is absent: then you have all changes. Store \`${nextSinceHeader}\`, or the \`position\` of the last change, and send it as \`since\` the next time. With \`follow=true\`, \`Link\` is always present, for readers that wait for more. The feed is complete and can repeat a change. A finding or action plan that becomes overdue (in UTC) is a change: it gets a new version. A page can be empty before the end if the caller cannot read half a million changes in a row. To start, request \`since=now\`, keep the link or the header, read the lists, and then continue from there. NDJSON and CSV contain all changes up to the end of the feed. Changes are stored for ${changesKeptDays} days. An older cursor, or one that a restored database no longer knows, returns 410: start again.

Read the changed resource by its kind: ${Object.entries(changePaths)
    .map(([kind, path]) => `\`${kind}\` at \`${path}\``)
    .join(', ')}. For a log, read the entries after the last one that you know (\`after_seq\`).`,
  query: z.strictObject({
    limit: pageQuery.limit,
    since: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .meta({
        description: `Changes after this position: the \`position\` of a change, the header \`${nextSinceHeader}\` of an earlier response, or \`now\` for the end of the feed. Default: the oldest stored change`,
      }),
    ...formQuery,
    ...csvQuery,
    follow: z.enum(['true', 'false']).default('false').meta({
      description: '`true` links to a next page even at the end of the feed, for readers that wait for more',
    }),
  }),
  answers: {
    200: {
      description: 'Changes, oldest first',
      schema: z.array(changeSchema),
      headers: {
        Link: 'The link to the next page (RFC 8288), if there is one; always with `follow=true` or `since=now`',
        [nextSinceHeader]: 'The position after this page: the value of `since` for the next request',
      },
    },
  },
  problems: ['cursor_expired'],
})

export const changesRoutes = [listChanges] as const
