import { expect, test } from 'vitest'
import { findCreation, suggestPath } from './suggest-path.ts'

test.each([
  ['/findings', '/api/v1/findings'],
  ['/api/findings?limit=1', '/api/v1/findings'],
  ['/api/v2/findings', '/api/v1/findings'],
  ['/v1/findings/', '/api/v1/findings'],
  ['/API/V1/Findings', '/api/v1/findings'],
  ['/api/v1/finding', '/api/v1/findings'],
  ['/api/v1/action_plans', '/api/v1/action-plans'],
  ['/api/v1/actionPlans/', '/api/v1/action-plans'],
  ['/api/v1/finding/019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', '/api/v1/findings/{id}'],
  ['/scim/v2/users', '/scim/v2/Users'],
])('%s was probably meant to be %s', (target, path) => {
  expect(suggestPath(target)).toBe(path)
})

test.each([
  '/',
  '/api/v1',
  '/api/v1/invoices',
  '/wp-login.php',
  `/api/v1/${'findings/'.repeat(1000)}`,
  '/api/v1/%2e%2e',
])('%s is like no path', (target) => {
  expect(suggestPath(target)).toBeUndefined()
})

test('a list of what belongs to another resource has the path that creates it', () => {
  expect(findCreation('/api/v1/action-plans?limit=1')).toBe('/api/v1/findings/{id}/action-plans')
  expect(findCreation('/api/v1/entities')).toBeUndefined()
})
