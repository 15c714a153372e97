import { describe, expect, test } from 'vitest'

import { problemTypes } from './problem.ts'
import { routeTable } from './route-table.ts'
import type { Access, Route } from './route.ts'
import { isScimTarget } from './scim/error.ts'
import { roles } from './scope.ts'

const routes = routeTable.map((route) => [`${route.method} ${route.path}`, route] as const)

// Written out by hand, so that nobody can open a route without changing this list as well.
const access: Readonly<Record<string, string>> = {
  'GET /api/v1/whoami': 'any',
  'GET /api/v1/openapi.json': 'public',
  'GET /api/v1/openapi-agent.json': 'public',
  'GET /api/v1/swagger.json': 'public',
  'GET /docs': 'public',
  'GET /docs/reference.js': 'public',
  'GET /docs/guides': 'public',
  'GET /docs/guides/:guide': 'public',
  'GET /problems/:slug': 'public',
  'POST /api/v1/api-keys': 'person admin',
  'GET /api/v1/api-keys': 'person admin',
  'GET /api/v1/api-keys/:id': 'person admin',
  'POST /api/v1/api-keys/find': 'person admin',
  'POST /api/v1/leaked-keys': 'public',
  'POST /api/v1/leaked-keys/github': 'public',
  'PATCH /api/v1/api-keys/:id': 'person admin',
  'POST /api/v1/api-keys/:id/revoke': 'person admin',
  'POST /api/v1/api-keys/:id/rotate': 'person admin',
  'POST /api/v1/api-keys/bulk/preview': 'person admin',
  'POST /api/v1/api-keys/bulk': 'person admin',
  'GET /api/v1/api-keys/:id/events': 'person admin',
  'GET /api/v1/api-keys/:id/usage': 'person admin',
  'POST /api/v1/api-keys/:id/explain': 'person admin',
  'GET /api/v1/key-health': 'person admin',
  'GET /api/v1/key-policy': 'person admin',
  'PATCH /api/v1/key-policy': 'person admin',
  'GET /api/v1/key-policy/events': 'person admin',
  'GET /api/v1/members': 'person admin',
  'GET /api/v1/audit-events': 'person auditor',
  'POST /api/v1/webhooks': 'person admin',
  'GET /api/v1/webhooks': 'person admin',
  'GET /api/v1/webhooks/:id': 'person admin',
  'PATCH /api/v1/webhooks/:id': 'person admin',
  'DELETE /api/v1/webhooks/:id': 'person admin',
  'POST /api/v1/webhooks/:id/rotate-secret': 'person admin',
  'GET /api/v1/webhooks/:id/deliveries': 'person admin',
  'POST /api/v1/webhooks/:id/deliveries': 'person admin',
  'GET /api/v1/changes': 'one of read:findings read:universe',
  'GET /api/v1/findings': 'scope read:findings',
  'POST /api/v1/findings': 'scope write:findings',
  'GET /api/v1/findings/:id': 'scope read:findings',
  'GET /api/v1/findings/summary': 'scope read:findings',
  'PATCH /api/v1/findings/:id': 'scope write:findings',
  'POST /api/v1/findings/:id/status': 'scope write:findings',
  'GET /api/v1/findings/:id/transitions': 'scope read:findings',
  'POST /api/v1/findings/bulk': 'scope write:findings',
  'GET /api/v1/recommendations': 'scope read:findings',
  'GET /api/v1/findings/:id/recommendations': 'scope read:findings',
  'GET /api/v1/recommendations/:id': 'scope read:findings',
  'POST /api/v1/findings/:id/recommendations': 'scope write:findings',
  'PATCH /api/v1/recommendations/:id': 'scope write:findings',
  'GET /api/v1/action-plans': 'scope read:findings',
  'GET /api/v1/findings/:id/action-plans': 'scope read:findings',
  'GET /api/v1/action-plans/:id': 'scope read:findings',
  'POST /api/v1/findings/:id/action-plans': 'scope write:findings',
  'PATCH /api/v1/action-plans/:id': 'scope write:findings',
  'POST /api/v1/action-plans/:id/status': 'scope write:findings',
  'POST /api/v1/action-plans/:id/extensions': 'scope write:findings',
  'POST /api/v1/action-plans/bulk': 'scope write:findings',
  'GET /api/v1/findings/:id/log': 'scope read:findings',
  'POST /api/v1/findings/:id/log': 'scope write:findings',
  'GET /api/v1/findings/:id/log/verify': 'scope read:findings',
  'GET /api/v1/exports/poam.json': 'scope read:findings',
  'GET /api/v1/remediation-log': 'scope read:findings',
  'GET /api/v1/remediation-log/checkpoint': 'scope read:findings',
  'GET /api/v1/remediation-log/keys': 'public',
  'GET /api/v1/entities': 'scope read:universe',
  'GET /api/v1/entities/:id': 'scope read:universe',
  'GET /api/v1/entities/:id/children': 'scope read:universe',
  'GET /api/v1/entities/:id/ancestors': 'scope read:universe',
  'GET /api/v1/hierarchies': 'scope read:universe',
  'GET /api/v1/hierarchies/:key': 'scope read:universe',
  'GET /api/v1/hierarchies/:key/nodes': 'scope read:universe',
  'GET /api/v1/hierarchy-nodes/:id': 'scope read:universe',
  'GET /api/v1/hierarchies/:key/tree': 'scope read:universe',
  'GET /api/v1/hierarchies/:key/diff': 'scope read:universe',
  'GET /api/v1/test-procedures': 'scope read:universe',
  'GET /api/v1/test-procedures/:id': 'scope read:universe',
  'GET /api/v1/people': 'scope read:universe',
  'GET /api/v1/people/:id': 'scope read:universe',
  'POST /api/v1/evidence': 'scope write:evidence',
  'POST /api/v1/evidence/forms': 'scope write:evidence',
  'POST /api/v1/evidence/uploads': 'scope write:evidence',
  'HEAD /api/v1/evidence/uploads/:id': 'scope write:evidence',
  'PATCH /api/v1/evidence/uploads/:id': 'scope write:evidence',
  'DELETE /api/v1/evidence/uploads/:id': 'scope write:evidence',
  'OPTIONS /api/v1/evidence/uploads': 'public',
  'OPTIONS /api/v1/evidence/uploads/:id': 'public',
  'POST /api/v1/evidence/:id/revisions': 'scope write:evidence',
  'POST /api/v1/evidence/:id/attachments': 'scope write:evidence',
  'GET /api/v1/evidence-files': 'person auditor',
  'GET /api/v1/evidence-files/:id': 'person auditor',
  'GET /api/v1/evidence-files/:id/content': 'person auditor',
  'GET /api/v1/evidence-files/:id/custody': 'person admin',
  'POST /api/v1/evidence-files/:id/release': 'person admin',
  'POST /api/v1/evidence-files/:id/purge': 'person admin',
  'POST /api/v1/evidence-files/:id/hold': 'person admin',
  'POST /api/v1/evidence-files/:id/lift-hold': 'person admin',
  'POST /api/v1/evidence-files/:id/review': 'person auditor',
  'GET /api/v1/evidence-policy': 'person admin',
  'PATCH /api/v1/evidence-policy': 'person admin',
  'GET /.well-known/jwks.json': 'public',
  'GET /api/v1/connectors': 'scope admin:sync',
  'POST /api/v1/connectors': 'scope admin:sync',
  'GET /api/v1/connectors/:id': 'scope admin:sync',
  'PATCH /api/v1/connectors/:id': 'scope admin:sync',
  'DELETE /api/v1/connectors/:id': 'scope admin:sync',
  'GET /api/v1/connectors/:id/missing': 'scope admin:sync',
  'POST /api/v1/connectors/:id/test': 'scope admin:sync',
  'POST /api/v1/connectors/:id/runs': 'scope admin:sync',
  'GET /api/v1/sync-runs': 'scope admin:sync',
  'GET /api/v1/sync-runs/:id': 'scope admin:sync',
  'GET /api/v1/sync-runs/:id/changes': 'scope admin:sync',
  'GET /api/v1/sync-runs/:id/errors': 'scope admin:sync',
  'GET /api/v1/sync-runs/:id/events': 'scope admin:sync',
  'POST /api/v1/sync-runs/:id/approve': 'scope admin:sync',
  'POST /api/v1/sync-runs/:id/cancel': 'scope admin:sync',
  'POST /api/v1/sync-runs/:id/rollback': 'scope admin:sync',
  'POST /api/v1/sync/entities': 'scope admin:sync',
  'POST /api/v1/sync/org-structures/:key': 'scope admin:sync',
  'POST /api/v1/sync/test-procedures': 'scope admin:sync',
  'POST /api/v1/sync/people': 'scope admin:sync',
  'GET /scim/v2/Users': 'scope admin:sync',
  'POST /scim/v2/Users': 'scope admin:sync',
  'GET /scim/v2/Users/:id': 'scope admin:sync',
  'PUT /scim/v2/Users/:id': 'scope admin:sync',
  'PATCH /scim/v2/Users/:id': 'scope admin:sync',
  'DELETE /scim/v2/Users/:id': 'scope admin:sync',
  'GET /scim/v2/Groups': 'scope admin:sync',
  'POST /scim/v2/Groups': 'scope admin:sync',
  'GET /scim/v2/Groups/:id': 'scope admin:sync',
  'PUT /scim/v2/Groups/:id': 'scope admin:sync',
  'PATCH /scim/v2/Groups/:id': 'scope admin:sync',
  'DELETE /scim/v2/Groups/:id': 'scope admin:sync',
  'POST /scim/v2/Users/.search': 'scope admin:sync',
  'POST /scim/v2/Groups/.search': 'scope admin:sync',
  'POST /scim/v2/.search': 'scope admin:sync',
  'GET /scim/v2/Me': 'scope admin:sync',
  'POST /scim/v2/Me': 'scope admin:sync',
  'PUT /scim/v2/Me': 'scope admin:sync',
  'PATCH /scim/v2/Me': 'scope admin:sync',
  'DELETE /scim/v2/Me': 'scope admin:sync',
  'POST /scim/v2/Bulk': 'scope admin:sync',
  'GET /scim/v2/ServiceProviderConfig': 'public',
  'GET /scim/v2/ResourceTypes': 'public',
  'GET /scim/v2/ResourceTypes/:urn': 'public',
  'GET /scim/v2/Schemas': 'public',
  'GET /scim/v2/Schemas/:urn': 'public',
}

function inWords(rule: Access): string {
  switch (rule.kind) {
    case 'scope':
      return `scope ${rule.scope}`
    case 'any-scope':
      return `one of ${rule.scopes.join(' ')}`
    case 'person':
      return `person ${rule.role}`
    default:
      return rule.kind
  }
}

/** Replaces all parameters with the same text, so that ambiguous paths become equal. */
function shape(route: Route): string {
  return `${route.method} ${route.path.replaceAll(/:[^/]+/g, ':')}`
}

describe('the route table', () => {
  test('opens each route exactly to the callers listed here', () => {
    expect(Object.fromEntries(routes.map(([name, route]) => [name, inWords(route.access)]))).toEqual(access)
  })

  test('names each route once', () => {
    expect(new Set(routeTable.map((route) => route.id)).size).toBe(routeTable.length)
  })

  test('has no two routes that one request could match', () => {
    expect(new Set(routeTable.map(shape)).size).toBe(routeTable.length)
    for (const [, route] of routes) {
      // A fixed segment beside a parameter would make the order of the table decide.
      const prefix = shape(route).replace(/[^/]*$/, '')
      const siblings = new Set(routeTable.map(shape).filter((other) => other.replace(/[^/]*$/, '') === prefix))
      if (!siblings.has(`${prefix}:`)) continue
      const parameter = routeTable.find((other) => shape(other) === `${prefix}:`)
      const [name] = Object.keys(parameter?.params?.shape ?? {}).slice(-1)
      for (const sibling of siblings) {
        // Unless the word can be no value of the parameter.
        const word = sibling.slice(prefix.length)
        const others = Object.keys(parameter?.params?.shape ?? {}).slice(0, -1).length
        if (word === ':') continue
        expect(others, 'only the last parameter is looked at here').toBe(0)
        expect(parameter?.params?.safeParse({ [name ?? '']: word }).success, sibling).toBe(false)
      }
    }
  })
})

test('has SCIM errors and bodies below /scim/v2 and nowhere else', () => {
  for (const route of routeTable)
    expect([route.path, isScimTarget(route.path)]).toEqual([route.path, route.dialect === 'scim'])
  for (const path of ['/scim/v2x/Users', '/scim/v1/Users', '/api/scim/v2/Users', '/scim'])
    expect(isScimTarget(path)).toBe(false)
})

describe.each(routes)('%s', (_name, route) => {
  test('has an id of an area and an operation, and the area is its upstream', () => {
    expect(route.id).toMatch(/^[a-z]+\.[a-z]+(-[a-z]+)*$/)
    expect(route.id.split('.')[0]).toBe(route.upstream)
  })

  test('has a path in canonical form whose parameters are exactly those that it parses', () => {
    // The names of SCIM's resources begin with a capital.
    const path = route.dialect === 'scim' ? route.path.toLowerCase() : route.path
    expect(path).toMatch(/^(\/(:[a-z_]+|[a-z0-9.-]*[a-z0-9][a-z0-9.-]*))+$/)
    const inPath = [...route.path.matchAll(/:([a-z_]+)/g)].map(([, name]) => name)
    expect(Object.keys(route.params?.shape ?? {})).toEqual(inPath)
  })

  test('has a body only if its method has one, with a limit', () => {
    const takesBody = route.body !== undefined || route.bodyMediaTypes !== undefined
    if (['GET', 'HEAD', 'DELETE'].includes(route.method)) expect(takesBody).toBe(false)
    expect(route.maxBodyBytes > 0).toBe(takesBody)
    expect(Number.isSafeInteger(route.maxBodyBytes)).toBe(true)
  })

  test('rejects unknown parameters and members', () => {
    for (const schema of [route.params, route.query, route.body]) {
      // What SCIM sends and we do not keep is left out (RFC 7643 §3.1).
      if (schema === undefined || (route.dialect === 'scim' && schema === route.body)) continue
      const result = schema.safeParse({ stray: 'x' })
      expect(result.success).toBe(false)
      // A body that is a list is refused as no list, and each of its elements here.
      const codes = [...(result.error?.issues ?? []), ...(schema.safeParse([{ stray: 'x' }]).error?.issues ?? [])]
      expect(codes.map((issue) => issue.code)).toContain('unrecognized_keys')
    }
  })

  test('has one successful response, with a limit', () => {
    const successes = Object.keys(route.answers).filter((status) => /^2\d\d$/.test(status))
    expect(successes).toHaveLength(1)
    expect(Object.keys(route.answers).every((status) => /^(2\d\d|304)$/.test(status))).toBe(true)
    expect(route.answerWithinMs).toBeGreaterThan(0)
    expect(route.answerWithinMs).toBeLessThanOrEqual(30_000)
    if (route.assertionSeconds !== undefined) expect(route.assertionSeconds).toBeLessThanOrEqual(270)
  })

  test('lists known problems, each once', () => {
    expect(Object.keys(problemTypes)).toEqual(expect.arrayContaining([...route.problems]))
    expect(new Set(route.problems).size).toBe(route.problems.length)
  })

  test('has a summary and a description', () => {
    expect(route.summary).toMatch(/^[A-Z].*[^.]$/)
    expect(route.tag).not.toBe('')
  })

  test('requires only roles that exist', () => {
    if (route.access.kind === 'person') expect(roles).toContain(route.access.role)
    expect(['public', 'any', 'scope', 'any-scope', 'person']).toContain(route.access.kind)
  })
})
