import { type CellFault, failedFormulaError } from '../csv/cell.ts'
import type { NumberKind } from './styles.ts'

export type Cell = string | CellFault

/** A cell as the sheet stores it (ECMA-376 part 1, section 18.3.1.4). */
export interface RawCell {
  readonly type: string
  readonly kind: NumberKind
  readonly value: string
  readonly isFormula: boolean
  readonly inline: string
}

/** Returns the value in a fixed form, whatever the cell shows: plain numbers, dates in ISO 8601, `true` and `false`. */
export function cellText(cell: RawCell, strings: readonly string[], is1904: boolean): Cell {
  const { type, kind, value, isFormula, inline } = cell
  switch (type) {
    case 's':
      return value === '' ? '' : (strings[Number(value)] ?? brokenCell)
    case 'inlineStr':
      return decodeEscapes(inline)
    case 'str':
      return decodeEscapes(value)
    case 'b':
      return value === '' ? '' : value === '1' || value === 'true' ? 'true' : 'false'
    case 'e':
      return failedFormulaError(value)
    case 'd':
      return value.replace(/T00:00:00(?:\.0+)?Z?$/, '')
    default:
      if (value === '') return isFormula ? notCalculated : ''
      return kind === 'number' ? plainNumber(value) : dateText(Number(value), kind, is1904)
  }
}

const brokenCell: CellFault = {
  code: 'workbook_broken',
  message: 'refers to a text that the workbook lacks: enter it again',
}

const notCalculated: CellFault = {
  code: 'formula_not_calculated',
  message: 'is a formula without a value: open the workbook in a spreadsheet and save it',
}

/** Characters that XML cannot hold are written as `_x000D_`. */
export function decodeEscapes(text: string): string {
  const plain = text.includes('_x')
    ? text.replaceAll(/_x([0-9A-Fa-f]{4})_/g, (_all, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    : text
  return plain.normalize('NFC')
}

function plainNumber(value: string): Cell {
  if (/^-?\d{1,308}$/.test(value)) return value
  const number = Number(value)
  if (!Number.isFinite(number)) return { code: 'inexact_number', message: 'is not a number that can be read' }
  const [digits = '', exponent] = String(number).split('e')
  return exponent === undefined ? digits : withoutExponent(digits, Number(exponent))
}

function withoutExponent(digits: string, exponent: number): string {
  const sign = digits.startsWith('-') ? '-' : ''
  const [whole = '', fraction = ''] = digits.slice(sign.length).split('.')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${whole}${fraction}`
  return `${sign}${whole}${fraction.padEnd(exponent, '0')}`
}

const secondsADay = 86_400

/** The number of 1970-01-01. Excel's calendar of 1900 has a 29 February, which is day 60. */
const epochDay = { from1900: 25_569, from1904: 24_107 }
const lastYear = 9999

function dateText(serial: number, kind: NumberKind, is1904: boolean): Cell {
  const total = Math.round(serial * secondsADay)
  if (!Number.isFinite(total) || total < 0) return noDate
  if (kind === 'elapsed') return timeOf(total)
  const day = Math.floor(total / secondsADay)
  const seconds = total % secondsADay
  if (day === 0 && (kind === 'time' || seconds > 0)) return timeOf(seconds)
  if (!is1904 && (day === 0 || day === 60)) return noDate
  const epoch = is1904 ? epochDay.from1904 : day < 60 ? epochDay.from1900 - 1 : epochDay.from1900
  const date = new Date((day - epoch) * secondsADay * 1000)
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() > lastYear) return noDate
  const calendarDay = date.toISOString().slice(0, 10)
  return seconds === 0 ? calendarDay : `${calendarDay}T${timeOf(seconds)}`
}

const noDate: CellFault = {
  code: 'invalid_date',
  message: 'is formatted as a date, but its number is not a date: enter the date again',
}

function timeOf(seconds: number): string {
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  return parts.map((part) => String(part).padStart(2, '0')).join(':')
}
