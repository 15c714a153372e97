import { openApi, routeTable } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { referencePage } from './reference-page.ts'

const page = referencePage(JSON.parse(JSON.stringify(openApi('/'))))
const html = page.html.toString()

describe('the reference page', () => {
  test.each(routeTable.map((route) => [route.id, route] as const))('describes %s', (id, route) => {
    expect(html).toContain(`<section id="${id}">`)
    expect(html).toContain(route.path.replaceAll(/:(\w+)/g, '{$1}'))
    expect(html).toContain(`href="#${id}"`)
  })

  test('links only to itself and to the document', () => {
    const links = [...html.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, to = '']) => to)
    const anchors = new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => `#${id}`))
    expect(links.length).toBeGreaterThan(routeTable.length)
    expect(links.filter((to) => !anchors.has(to) && to !== 'api/v1/openapi.json')).toEqual([])
  })

  test('has no script, and may load nothing', () => {
    expect(html).not.toMatch(/<script|javascript:| on\w+=|<link|<img|@import|url\(/i)
    expect(page.contentSecurityPolicy).toMatch(/^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; /)
  })

  test('shows what could be taken for markup as text', () => {
    const path = { get: { operationId: 'x', tags: ['<b>'], summary: '<script>alert(1)</script>', responses: {} } }
    const shown = referencePage({ info: { title: '"><img>' }, paths: { '/<x>': path } }).html.toString()
    expect(shown).not.toMatch(/<script|<img|<b>/)
  })
})
