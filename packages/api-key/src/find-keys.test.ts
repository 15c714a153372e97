import { expect, test } from 'vitest'
import { findKeys, maskKeys } from './find-keys.ts'
import { generateKey } from './format.ts'

test('keys are found by form and checksum, between any other characters', () => {
  const [one, two] = [generateKey().value, generateKey().value]
  const altered = `${one.slice(0, -1)}${one.endsWith('0') ? '1' : '0'}`
  const found = findKeys(`x${one}y "${two}" postern_${one} ${altered} ${one.slice(0, -1)}!`)
  expect(found.map(({ index }) => index)).toEqual([1, 61, 128])
  expect(found.map(({ masked }) => masked)).toEqual([one, two, one].map((value) => `•••••${value.slice(-4)}`))
})

test('a found key and a masked text do not contain the value', () => {
  const { value } = generateKey()
  const text = JSON.stringify([findKeys(value), maskKeys(`/tmp/${value}.txt`)])
  expect(text).not.toContain(value.slice(8, 30))
  expect(maskKeys(`/tmp/${value}.txt`)).toBe(`/tmp/•••••${value.slice(-4)}.txt`)
})
