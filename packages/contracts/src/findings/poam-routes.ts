import { defineRoute } from '../route.ts'
import { summarizeFindings } from './finding-routes.ts'
import { oscalMediaType, poamSchema } from './poam.ts'
import { read } from './route-parts.ts'

export const maxPoamFindings = 20_000

export const exportPoam = defineRoute({
  id: 'findings.export-poam',
  method: 'GET',
  path: '/api/v1/exports/poam.json',
  upstream: 'findings',
  access: read,
  tag: 'Exports',
  summary: 'Export findings and action plans as an OSCAL plan of action and milestones',
  description: `For NIST OSCAL 1.2. The filters of the list of findings apply; without \`status\`, drafts and cancelled findings are left out. At most ${maxPoamFindings} findings; use filters to export more in parts. Returns 404 if no finding matches, because a document must contain at least one. The UUIDs of a finding, its plans and its entries are the same in every export.`,
  query: summarizeFindings.query.omit({ group_by: true }),
  // A slower export continues with a cursor, which holds a connection.
  assertionSeconds: 270,
  answers: {
    200: {
      description: 'The plan of action and milestones',
      schema: poamSchema,
      alternatives: [oscalMediaType],
      headers: { 'Content-Disposition': 'A name for the file' },
    },
  },
  problems: ['not_found'],
})
