/**
 * @promise Edge: A route is open to exactly the scope or role that the route table names; other routes do not exist.
 */

import { randomUUID } from 'node:crypto'
import { type GrantableScope, type Route, grantableScopes, roles, routeTable } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let stack: TestStack
let issuer: RunningIssuer
let gateway: string

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_OIDC_AUDIENCE: 'postern',
      // Every caller requests every public route within a minute.
      POSTERN_PUBLIC_REQUESTS: '10000',
    },
  })
  gateway = stack.gateways[0] ?? ''
})

afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

/**
 * What opens each route: one of these scopes; `any` credentials; `nothing` at all; or a role, `auditor` or `admin`, which no key has.
 * Written out by hand, and not read from the contracts: a route that is opened by mistake is opened there.
 */
const opening = {
  'GET /api/v1/whoami': ['any'],
  'GET /api/v1/openapi.json': ['nothing'],
  'GET /api/v1/openapi-agent.json': ['nothing'],
  'GET /api/v1/swagger.json': ['nothing'],
  'GET /docs': ['nothing'],
  'GET /docs/reference.js': ['nothing'],
  'GET /docs/guides': ['nothing'],
  'GET /docs/guides/:guide': ['nothing'],
  'GET /problems/:slug': ['nothing'],
  'GET /.well-known/jwks.json': ['nothing'],
  'GET /api/v1/remediation-log/keys': ['nothing'],

  'GET /api/v1/api-keys': ['admin'],
  'POST /api/v1/api-keys': ['admin'],
  'GET /api/v1/api-keys/:id': ['admin'],
  'POST /api/v1/api-keys/find': ['admin'],
  'POST /api/v1/leaked-keys': ['nothing'],
  'POST /api/v1/leaked-keys/github': ['nothing'],
  'PATCH /api/v1/api-keys/:id': ['admin'],
  'POST /api/v1/api-keys/:id/revoke': ['admin'],
  'POST /api/v1/api-keys/:id/rotate': ['admin'],
  'POST /api/v1/api-keys/bulk/preview': ['admin'],
  'POST /api/v1/api-keys/bulk': ['admin'],
  'GET /api/v1/api-keys/:id/events': ['admin'],
  'GET /api/v1/api-keys/:id/usage': ['admin'],
  'POST /api/v1/api-keys/:id/explain': ['admin'],
  'GET /api/v1/key-health': ['admin'],
  'GET /api/v1/key-policy': ['admin'],
  'PATCH /api/v1/key-policy': ['admin'],
  'GET /api/v1/key-policy/events': ['admin'],
  'GET /api/v1/members': ['admin'],
  'GET /api/v1/audit-events': ['auditor'],
  'POST /api/v1/webhooks': ['admin'],
  'GET /api/v1/webhooks': ['admin'],
  'GET /api/v1/webhooks/:id': ['admin'],
  'PATCH /api/v1/webhooks/:id': ['admin'],
  'DELETE /api/v1/webhooks/:id': ['admin'],
  'POST /api/v1/webhooks/:id/rotate-secret': ['admin'],
  'GET /api/v1/webhooks/:id/deliveries': ['admin'],
  'POST /api/v1/webhooks/:id/deliveries': ['admin'],

  'GET /api/v1/changes': ['read:findings', 'read:universe'],

  'GET /api/v1/findings': ['read:findings'],
  'POST /api/v1/findings': ['write:findings'],
  'GET /api/v1/findings/:id': ['read:findings'],
  'PATCH /api/v1/findings/:id': ['write:findings'],
  'POST /api/v1/findings/:id/status': ['write:findings'],
  'GET /api/v1/findings/:id/transitions': ['read:findings'],
  'GET /api/v1/findings/:id/log': ['read:findings'],
  'POST /api/v1/findings/:id/log': ['write:findings'],
  'GET /api/v1/findings/:id/log/verify': ['read:findings'],
  'GET /api/v1/exports/poam.json': ['read:findings'],
  'GET /api/v1/remediation-log': ['read:findings'],
  'GET /api/v1/remediation-log/checkpoint': ['read:findings'],
  'GET /api/v1/findings/summary': ['read:findings'],
  'GET /api/v1/recommendations': ['read:findings'],
  'GET /api/v1/findings/:id/recommendations': ['read:findings'],
  'GET /api/v1/recommendations/:id': ['read:findings'],
  'POST /api/v1/findings/:id/recommendations': ['write:findings'],
  'PATCH /api/v1/recommendations/:id': ['write:findings'],
  'GET /api/v1/action-plans': ['read:findings'],
  'GET /api/v1/findings/:id/action-plans': ['read:findings'],
  'GET /api/v1/action-plans/:id': ['read:findings'],
  'POST /api/v1/findings/:id/action-plans': ['write:findings'],
  'PATCH /api/v1/action-plans/:id': ['write:findings'],
  'POST /api/v1/action-plans/:id/status': ['write:findings'],
  'POST /api/v1/action-plans/:id/extensions': ['write:findings'],
  'POST /api/v1/findings/bulk': ['write:findings'],
  'POST /api/v1/action-plans/bulk': ['write:findings'],

  'GET /api/v1/entities': ['read:universe'],
  'GET /api/v1/entities/:id': ['read:universe'],
  'GET /api/v1/entities/:id/children': ['read:universe'],
  'GET /api/v1/entities/:id/ancestors': ['read:universe'],
  'GET /api/v1/hierarchies': ['read:universe'],
  'GET /api/v1/hierarchies/:key': ['read:universe'],
  'GET /api/v1/hierarchies/:key/nodes': ['read:universe'],
  'GET /api/v1/hierarchy-nodes/:id': ['read:universe'],
  'GET /api/v1/hierarchies/:key/tree': ['read:universe'],
  'GET /api/v1/hierarchies/:key/diff': ['read:universe'],
  'GET /api/v1/test-procedures': ['read:universe'],
  'GET /api/v1/test-procedures/:id': ['read:universe'],
  'GET /api/v1/people': ['read:universe'],
  'GET /api/v1/people/:id': ['read:universe'],

  'POST /api/v1/evidence': ['write:evidence'],
  'POST /api/v1/evidence/forms': ['write:evidence'],
  'POST /api/v1/evidence/uploads': ['write:evidence'],
  'OPTIONS /api/v1/evidence/uploads': ['nothing'],
  'OPTIONS /api/v1/evidence/uploads/:id': ['nothing'],
  'HEAD /api/v1/evidence/uploads/:id': ['write:evidence'],
  'PATCH /api/v1/evidence/uploads/:id': ['write:evidence'],
  'DELETE /api/v1/evidence/uploads/:id': ['write:evidence'],
  'POST /api/v1/evidence/:id/revisions': ['write:evidence'],
  'POST /api/v1/evidence/:id/attachments': ['write:evidence'],
  'GET /api/v1/evidence-files': ['auditor'],
  'GET /api/v1/evidence-files/:id': ['auditor'],
  'GET /api/v1/evidence-files/:id/content': ['auditor'],
  'GET /api/v1/evidence-files/:id/custody': ['admin'],
  'POST /api/v1/evidence-files/:id/release': ['admin'],
  'POST /api/v1/evidence-files/:id/purge': ['admin'],
  'POST /api/v1/evidence-files/:id/hold': ['admin'],
  'POST /api/v1/evidence-files/:id/lift-hold': ['admin'],
  'POST /api/v1/evidence-files/:id/review': ['auditor'],
  'GET /api/v1/evidence-policy': ['admin'],
  'PATCH /api/v1/evidence-policy': ['admin'],

  'GET /api/v1/connectors': ['admin:sync'],
  'POST /api/v1/connectors': ['admin:sync'],
  'GET /api/v1/connectors/:id': ['admin:sync'],
  'PATCH /api/v1/connectors/:id': ['admin:sync'],
  'DELETE /api/v1/connectors/:id': ['admin:sync'],
  'GET /api/v1/connectors/:id/missing': ['admin:sync'],
  'POST /api/v1/connectors/:id/test': ['admin:sync'],
  'POST /api/v1/connectors/:id/runs': ['admin:sync'],
  'GET /api/v1/sync-runs': ['admin:sync'],
  'GET /api/v1/sync-runs/:id': ['admin:sync'],
  'GET /api/v1/sync-runs/:id/changes': ['admin:sync'],
  'GET /api/v1/sync-runs/:id/errors': ['admin:sync'],
  'GET /api/v1/sync-runs/:id/events': ['admin:sync'],
  'POST /api/v1/sync-runs/:id/approve': ['admin:sync'],
  'POST /api/v1/sync-runs/:id/cancel': ['admin:sync'],
  'POST /api/v1/sync-runs/:id/rollback': ['admin:sync'],
  'POST /api/v1/sync/entities': ['admin:sync'],
  'POST /api/v1/sync/org-structures/:key': ['admin:sync'],
  'POST /api/v1/sync/test-procedures': ['admin:sync'],
  'POST /api/v1/sync/people': ['admin:sync'],

  'GET /scim/v2/Users': ['admin:sync'],
  'POST /scim/v2/Users': ['admin:sync'],
  'GET /scim/v2/Users/:id': ['admin:sync'],
  'PUT /scim/v2/Users/:id': ['admin:sync'],
  'PATCH /scim/v2/Users/:id': ['admin:sync'],
  'DELETE /scim/v2/Users/:id': ['admin:sync'],
  'GET /scim/v2/Groups': ['admin:sync'],
  'POST /scim/v2/Groups': ['admin:sync'],
  'GET /scim/v2/Groups/:id': ['admin:sync'],
  'PUT /scim/v2/Groups/:id': ['admin:sync'],
  'PATCH /scim/v2/Groups/:id': ['admin:sync'],
  'DELETE /scim/v2/Groups/:id': ['admin:sync'],
  'POST /scim/v2/Users/.search': ['admin:sync'],
  'POST /scim/v2/Groups/.search': ['admin:sync'],
  'POST /scim/v2/.search': ['admin:sync'],
  'GET /scim/v2/Me': ['admin:sync'],
  'POST /scim/v2/Me': ['admin:sync'],
  'PUT /scim/v2/Me': ['admin:sync'],
  'PATCH /scim/v2/Me': ['admin:sync'],
  'DELETE /scim/v2/Me': ['admin:sync'],
  'POST /scim/v2/Bulk': ['admin:sync'],
  'GET /scim/v2/ServiceProviderConfig': ['nothing'],
  'GET /scim/v2/ResourceTypes': ['nothing'],
  'GET /scim/v2/ResourceTypes/:urn': ['nothing'],
  'GET /scim/v2/Schemas': ['nothing'],
  'GET /scim/v2/Schemas/:urn': ['nothing'],
} as const satisfies Readonly<Record<string, readonly string[]>>

/** What each scope amounts to, wildcards by name. */
const holds: Readonly<Record<GrantableScope, readonly string[]>> = {
  'read:universe': ['read:universe'],
  'read:findings': ['read:findings'],
  'write:evidence': ['write:evidence'],
  'write:findings': ['write:findings'],
  'admin:sync': ['admin:sync'],
  'read:*': ['read:universe', 'read:findings'],
  'write:*': ['write:evidence', 'write:findings'],
  'admin:*': ['admin:sync'],
  '*': ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'],
}

const rolesHold: Readonly<Record<string, readonly string[]>> = {
  viewer: holds['read:*'],
  auditor: [...holds['read:*'], ...holds['write:*'], 'auditor'],
  admin: [...holds['*'], 'auditor', 'admin'],
}

/** HEAD is what GET is. */
function methodsOf({ method }: Route): readonly ('HEAD' | Route['method'])[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

function nameOf({ path }: Route, method: string): string {
  return `${method} ${path}`
}

/** A request to the route, as complete as access can depend on. */
function targetOf(route: Route): string {
  const path = route.path.replaceAll(/:([a-z_]+)/g, (_match, name) => (name === 'slug' ? 'not-found' : randomUUID()))
  return route.id === 'evidence.upload' ? `${path}?file_name=a.txt` : path
}

/** Calls every route of the table, and says of each what came of it. */
async function callAll(authorization: string): Promise<Record<string, string>> {
  const called: Record<string, string> = {}
  for (const route of routeTable) {
    for (const method of methodsOf(route)) {
      const answer = await send(gateway, targetOf(route), { method, headers: { authorization } })
      const isDenied = answer.status === 403 || answer.status === 401
      // Too many requests, a fault, or a service that does not know the route: nothing that could be taken for an answer to the question.
      // 501 is what SCIM wants of an operation that it names and nobody supports.
      const isFault = answer.status >= 500 && answer.status !== 501
      const isOther = answer.status === 429 || isFault || answer.text.includes('has no such route')
      called[nameOf(route, method)] = isOther ? `${answer.status} ${answer.text}` : isDenied ? 'denied' : 'allowed'
      if (isDenied && method !== 'HEAD') {
        // SCIM errors have only text.
        const isScim = route.dialect === 'scim' && answer.text.includes('This operation needs the scope')
        const expected = isScim || answer.code === 'insufficient_scope' || answer.code === 'role_required'
        expect([nameOf(route, method), answer.status, expected]).toEqual([nameOf(route, method), 403, true])
      }
    }
  }
  return called
}

/** What the tables above say of every route, for who holds this. */
function expectedFor(held: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(opening).flatMap(([name, keys]) => {
      const isOpen = keys.some((key) => key === 'any' || key === 'nothing' || held.includes(key))
      const word = isOpen ? 'allowed' : 'denied'
      return name.startsWith('GET ')
        ? [
            [name, word],
            [name.replace('GET', 'HEAD'), word],
          ]
        : [[name, word]]
    }),
  )
}

describe('every route of the route table', () => {
  // A route that is not in the list above, or a line of it that is no route, shows here as a difference.
  test.each(grantableScopes)('is allowed or denied for a key with %s as listed', async (scope) => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: [scope] })
    expect(await callAll(`ApiKey ${key}`)).toEqual(expectedFor(holds[scope]))
  })

  test.each(roles)('is allowed or denied for a person with the role %s as listed', async (role) => {
    const { id } = await stack.createTenant()
    const token = await issuer.issue({ tenantId: id, roles: [role] })
    expect(await callAll(`Bearer ${token}`)).toEqual(expectedFor(rolesHold[role] ?? []))
  })

  test('rejects callers without credentials unless it is public', async () => {
    const statuses: Record<string, boolean> = {}
    for (const route of routeTable) {
      for (const method of methodsOf(route)) {
        const { status } = await send(gateway, targetOf(route), { method })
        statuses[nameOf(route, method)] = status === 401
      }
    }
    const expected = Object.entries(opening).flatMap(([name, keys]) => {
      const isClosed = !keys.some((key) => key === 'nothing')
      return name.startsWith('GET ')
        ? [
            [name, isClosed],
            [name.replace('GET', 'HEAD'), isClosed],
          ]
        : [[name, isClosed]]
    })
    expect(statuses).toEqual(Object.fromEntries(expected))
  })
})
