/**
 * @promise Operation: Tests notice at least nine of ten changes to the code that decides about access.
 * @alsoShownBy npm run test:mutation
 */

import { describe, expect, test } from 'vitest'
import { type Mutant, type Reason, judge } from './judge.ts'

const survivor: Mutant = {
  file: 'a.ts',
  line: 1,
  mutator: 'ConditionalExpression',
  original: 'one < two',
  replacement: 'true',
  status: 'Survived',
}
const reason: Reason = { file: 'a.ts', original: 'one < two', replacements: ['true'], because: 'it always is' }

const because = (mutants: readonly Mutant[], times?: number): (string | undefined)[] =>
  judge(mutants, [times === undefined ? reason : { ...reason, times }]).survivors.map((one) => one.because)

describe('the judge of mutation tests', () => {
  test('reports survivors without a reason for their file, text and replacement', () => {
    for (const other of [{ file: 'b.ts' }, { original: 'one > two' }, { replacements: ['false'] }]) {
      expect(judge([survivor], [{ ...reason, ...other }]).survivors).toEqual([{ mutant: survivor, because: undefined }])
    }
  })

  test('counts survivors as undetected even with a reason, and code that no test reaches', () => {
    const mutants = [
      survivor,
      { ...survivor, original: 'x', status: 'NoCoverage' },
      { ...survivor, status: 'Killed' },
      { ...survivor, status: 'Timeout' },
      { ...survivor, status: 'CompileError' },
    ]
    expect(judge(mutants, [reason])).toMatchObject({ noticed: 2, timedOut: 1, unnoticed: 2, score: 50 })
    expect(judge(mutants, [reason]).survivors[0]?.because).toBe('it always is')
  })

  test('accepts a reason only for the stated number of survivors', () => {
    const elsewhere = { ...survivor, line: 9 }
    expect(because([survivor, elsewhere])).toEqual([undefined, undefined])
    expect(because([survivor, elsewhere], 2)).toEqual(['it always is', 'it always is'])
    expect(because([survivor], 2)).toEqual([undefined])
    const others = [{ file: 'b.ts' }, { original: 'one > two' }, { replacement: 'false' }, { status: 'Killed' }]
    for (const other of others) {
      expect(because([survivor, { ...elsewhere, ...other }])[0], JSON.stringify(other)).toBe('it always is')
    }
  })

  test('reports unused reasons of the tested files', () => {
    expect(judge([{ ...survivor, status: 'Killed' }], [reason, { ...reason, file: 'b.ts' }]).idle).toEqual([reason])
    expect(judge([survivor], [reason]).idle).toEqual([])
  })
})
