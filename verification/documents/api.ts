import { type Access, type Route, problemTypes, routeTable } from '@postern/contracts'
import { remedies } from '../../services/gateway/src/problem-pages.ts'
import { renderTable } from './table.ts'

export function renderProblems(): string {
  const rows = Object.entries(problemTypes)
    .toSorted(([, one], [, other]) => one.status - other.status)
    .map(([code, { status, title }]) => [`\`${code}\``, String(status), title, Reflect.get(remedies, code) ?? ''])
  return `# Problems

Error responses are problem documents (RFC 9457). \`code\` is stable; \`detail\` says what happened, \`errors\` where. The last column is what the page at the
problem's \`type\` says. This file is generated from the code: \`npm run docs\`.

${renderTable(['code', 'status', 'title', 'what to do'], rows)}`
}

export function renderRoutes(): string {
  const sections = [...Map.groupBy(routeTable, ({ tag }) => tag)].map(
    ([tag, routes]) => `## ${tag}\n\n${renderTable(['route', 'access', 'what it does'], routes.map(routeRow))}`,
  )
  return `# Routes

Every route of the public API, and who may call it. The gateway's \`/api/v1/openapi.json\` has parameters, bodies and responses; \`/docs\` shows them. This
file is generated from the code: \`npm run docs\`.

${sections.join('\n')}`
}

function routeRow({ method, path, access, summary }: Route): string[] {
  return [`\`${method} ${path}\``, describeAccess(access), summary]
}

function describeAccess(access: Access): string {
  switch (access.kind) {
    case 'public':
      return 'everybody'
    case 'any':
      return 'every key and person'
    case 'scope':
      return `\`${access.scope}\``
    case 'any-scope':
      return access.scopes.map((scope) => `\`${scope}\``).join(' or ')
    case 'person':
      return `people with the role ${access.role}`
    default:
      return access satisfies never
  }
}
