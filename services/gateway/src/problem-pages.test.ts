import { problemTypes, problemUri } from '@postern/contracts'
import { expect, test } from 'vitest'
import { problemPage } from './problem-pages.ts'

const codes = Object.keys(problemTypes).filter((code): code is keyof typeof problemTypes => code in problemTypes)

test.each(codes)('%s has a page at its URI, with its status and what to do', (code) => {
  const page = problemPage(problemUri(code).replace('/problems/', ''))
  expect(page).toContain(String(problemTypes[code].status))
  expect(page).toContain(code)
  expect(page?.match(/<p>[^<]{10,}/g)?.length).toBeGreaterThanOrEqual(1)
})

test.each(['', 'unknown', '__proto__', 'bad_request', '../not-found'])('there is no page %j', (slug) => {
  expect(problemPage(slug)).toBeUndefined()
})
