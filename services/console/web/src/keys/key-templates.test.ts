import { expect, test } from 'vitest'
import { parsePrefill } from './key-templates.ts'

test('a link without `new` fills in nothing', () => {
  expect(parsePrefill('?q=BI&label=x')).toBeUndefined()
})

test('a link names a template, and may replace parts of it', () => {
  expect(parsePrefill('?new=power-bi')).toEqual({
    label: '',
    scopes: ['read:universe', 'read:findings'],
    expiry: '1y',
    addresses: [],
  })
  expect(parsePrefill('?new=power-bi&label=Board&scope=read:findings&expires=30d&address=203.0.113.0/24,::1')).toEqual({
    label: 'Board',
    scopes: ['read:findings'],
    expiry: '30d',
    addresses: ['203.0.113.0/24', '::1'],
  })
})

test.each(['?new=', '?new=constructor', '?new=x&scope=root,*:*&expires=never'])(
  '%s is a form without values',
  (link) => {
    expect(parsePrefill(link)).toEqual({ label: '', scopes: [], expiry: undefined, addresses: [] })
  },
)

test('a key in a link is dropped, and a long label is cut', () => {
  expect(parsePrefill(`?new=&label=postern_${'0'.repeat(49)}`)?.label).toBe('')
  expect(parsePrefill(`?new=&label=${'x'.repeat(500)}`)?.label).toHaveLength(100)
})
