import { undecodable } from '../marking-decoder.ts'

/** What is wrong with one cell, for the owner of the table. */
interface CellFault {
  readonly code: string
  readonly message: string
}

/** What a spreadsheet shows where a formula has failed. */
const spreadsheetErrors: ReadonlySet<string> = new Set([
  '#REF!',
  '#NAME?',
  '#VALUE!',
  '#DIV/0!',
  '#NULL!',
  '#NUM!',
  '#N/A',
  '#SPILL!',
  '#CALC!',
])

// oxlint-disable-next-line no-control-regex -- these are what is looked for
const controls = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/

// Most cells hold none of what is looked for below, and there are many cells.
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const suspicious = /^#|[\0-\x08\x0b\x0c\x0e-\x1f\x7f\uFDD0]/

/** What keeps a cell from being a value, if anything does. Text that looks like a formula is text: exports protect it. */
export function findCellFault(value: string, maxLength: number): CellFault | undefined {
  if (value.length > maxLength) {
    return { code: 'value_too_long', message: `has ${value.length} characters; at most ${maxLength} are read` }
  }
  if (!suspicious.test(value)) return undefined
  if (value.includes(undecodable)) {
    return {
      code: 'encoding_broken',
      message: 'holds bytes that are not of the encoding of the file: save it as UTF-8, or set `encoding`',
    }
  }
  if (controls.test(value)) {
    return { code: 'control_character', message: 'holds a control character: remove it' }
  }
  if (spreadsheetErrors.has(value)) {
    return {
      code: 'formula_failed',
      message: `is the error ${value} of the spreadsheet: fix the formula that it comes from`,
    }
  }
  return undefined
}
