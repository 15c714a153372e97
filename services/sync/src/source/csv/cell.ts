import { undecodable } from '../marking-decoder.ts'

export interface CellFault {
  readonly code: string
  readonly message: string
}

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

// oxlint-disable-next-line no-control-regex -- it finds control characters
const controls = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/

// Tested first, because most cells have no fault.
// oxlint-disable-next-line no-control-regex -- it finds control characters
const suspicious = /^#|[\0-\x08\x0b\x0c\x0e-\x1f\x7f\uFDD0]/

/** Accepts text that looks like a formula. */
export function findCellFault(value: string, maxLength: number): CellFault | undefined {
  if (value.length > maxLength) {
    return { code: 'value_too_long', message: `has ${value.length} characters; at most ${maxLength} are read` }
  }
  if (!suspicious.test(value)) return undefined
  if (value.includes(undecodable)) {
    return {
      code: 'encoding_broken',
      message: 'contains bytes that are invalid in the encoding of the file: save the file as UTF-8, or set `encoding`',
    }
  }
  if (controls.test(value)) {
    return { code: 'control_character', message: 'contains a control character: remove it' }
  }
  if (spreadsheetErrors.has(value)) {
    return failedFormulaError(value)
  }
  return undefined
}

export function failedFormulaError(error: string): CellFault {
  return {
    code: 'formula_failed',
    message: `is the error ${error.slice(0, 80)} of the spreadsheet: fix the formula that it comes from`,
  }
}
