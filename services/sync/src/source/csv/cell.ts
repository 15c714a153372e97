import { replacementCharacter } from './decode.ts'

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

// A call or a DDE command. `+49 30 1234`, `-5` and `@handle` are values.
const formula = /^(?:=|[+@-]\s*[A-Za-z_.]+\s*[(|!])/
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const controls = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/

// Most cells hold none of what is looked for below, and there are many cells.
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const suspicious = /^[=#+@-]|[\0-\x08\x0b\x0c\x0e-\x1f\x7f\uFFFD]/

/** What keeps a cell from being taken as a value, if anything does. */
export function findCellFault(value: string, maxLength: number): CellFault | undefined {
  if (value.length > maxLength) {
    return { code: 'value_too_long', message: `has ${value.length} characters; at most ${maxLength} are read` }
  }
  if (!suspicious.test(value)) return undefined
  if (value.includes(replacementCharacter)) {
    return {
      code: 'encoding_broken',
      message: 'holds bytes that are not of the encoding of the file: save it as UTF-8, or set `encoding`',
    }
  }
  if (controls.test(value)) {
    return { code: 'control_character', message: 'holds a control character: remove it' }
  }
  if (formula.test(value)) {
    return { code: 'formula', message: 'is a formula: export the values, and not the formulas' }
  }
  if (spreadsheetErrors.has(value)) {
    return { code: 'formula_failed', message: `is the error ${value} of the spreadsheet: mend the formula it is from` }
  }
  return undefined
}
