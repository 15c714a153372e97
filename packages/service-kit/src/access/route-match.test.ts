import { routeTable } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { createRouteMatcher, matchOverride } from './route-match.ts'

const match = createRouteMatcher()

describe('the route table', () => {
  test.each([
    '/api/v1/findings/',
    '/api/v1/Findings',
    '/api/v1',
    '/',
    '/internal/v1/leases',
    '/internal/health/ready',
    '/api/v1/findings/a/b/c/d/e',
    `/api/v1/findings/${'a'.repeat(1101)}`,
  ])('has nothing at %s', (path) => {
    expect(match('GET', path)).toEqual({ kind: 'none' })
  })

  test('matches ids of up to 1100 characters', () => {
    const id = 'a'.repeat(1100)
    expect(match('GET', `/api/v1/findings/${id}`)).toMatchObject({ kind: 'route', params: { id } })
  })

  test('lists the methods of a path that exists with others', () => {
    expect(match('DELETE', '/api/v1/findings')).toEqual({ kind: 'method', allowed: ['GET', 'HEAD', 'POST'] })
    expect(match('OPTIONS', '/api/v1/whoami')).toEqual({ kind: 'method', allowed: ['GET', 'HEAD'] })
    expect(match('PROPFIND', '/api/v1/whoami')).toMatchObject({ kind: 'method' })
    expect(match('get', '/api/v1/whoami')).toMatchObject({ kind: 'method' })
  })

  test.each([
    ['GET', '/api/v1/findings/bulk', ['POST']],
    ['PATCH', '/api/v1/findings/bulk', ['POST']],
    ['PATCH', '/api/v1/findings/summary', ['GET', 'HEAD']],
    ['GET', '/api/v1/action-plans/bulk', ['POST']],
    ['POST', '/api/v1/evidence/uploads/attachments', ['DELETE', 'HEAD', 'OPTIONS', 'PATCH']],
  ])('treats %s %s as another method of that path, not as an item', (method, path, allowed) => {
    expect(match(method, path)).toEqual({ kind: 'method', allowed })
  })

  test('does not match a literal path as an item', () => {
    const literal = routeTable.filter(({ path }) => !path.includes(':'))
    for (const { path } of literal) {
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const found = match(method, path)
        expect(found.kind === 'route' ? found.route.path : path, `${method} ${path}`).toBe(path)
      }
    }
  })

  test('matches HEAD like GET, under the same rule', () => {
    const get = match('GET', '/api/v1/findings/some-id')
    expect(get).toMatchObject({ kind: 'route', route: { id: 'findings.get' }, params: { id: 'some-id' } })
    expect(match('HEAD', '/api/v1/findings/some-id')).toEqual(get)
    expect(match('HEAD', '/api/v1/evidence')).toMatchObject({ kind: 'method', allowed: ['POST'] })
  })

  test.each(routeTable.map((route) => [route.method, route.path, route] as const))(
    'finds %s %s',
    (method, path, route) => {
      expect(match(method, path.replaceAll(/:[a-z_]+/gi, 'x'))).toMatchObject({ kind: 'route', route })
    },
  )
})

test('paths that differ only in the name of a parameter are one path with the methods of both', () => {
  const [route] = routeTable
  if (route === undefined) throw new Error('the route table is empty')
  const read = { ...route, method: 'GET', path: '/items/:id' } as const
  const remove = { ...route, method: 'DELETE', path: '/items/:item_key' } as const
  const matchItems = createRouteMatcher([read, remove])
  expect(matchItems('GET', '/items/x')).toEqual({ kind: 'route', route: read, params: { id: 'x' } })
  expect(matchItems('DELETE', '/items/x')).toEqual({ kind: 'route', route: remove, params: { item_key: 'x' } })
  expect(matchItems('PUT', '/items/x')).toEqual({ kind: 'method', allowed: ['DELETE', 'GET', 'HEAD'] })
})

const override = (method: string, path: string) => matchOverride(match, method, path, match('POST', path))

test.each([
  ['PATCH', '/api/v1/findings/some-id'],
  ['GET', '/api/v1/findings'],
  ['DELETE', '/api/v1/findings'],
  ['PATCH', '/api/v1/there-is-none'],
])('a POST that names another method stays a POST if no route accepts the override: %s %s', (method, path) => {
  expect(override(method, path)).toBeUndefined()
})

test('a POST that names another method is matched as that method on the routes of resumable uploads', () => {
  const path = '/api/v1/evidence/uploads/some-id'
  expect(override('PATCH', path)).toEqual(match('PATCH', path))
  expect(match('PATCH', path)).toMatchObject({ kind: 'route' })
})

test('a POST that names a method which its path lacks gets the response to that method and is not executed as a POST', () => {
  const path = '/api/v1/evidence/uploads'
  expect(match('POST', path)).toMatchObject({ kind: 'route' })
  expect(override('PUT', path)).toEqual(match('PUT', path))
  expect(match('PUT', path)).toMatchObject({ kind: 'method' })
})
