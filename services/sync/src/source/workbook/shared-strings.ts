import { SourceReadError } from '../source-read-error.ts'
import { decodeEscapes } from './cell-text.ts'
import { readXml } from './read-xml.ts'

/** Characters in memory. Each text also counts as `textCost`. */
const maxHeld = 128 * 1024 * 1024
const textCost = 32

/** Reads the table of texts that cells refer to, without formats and readings. */
export async function readSharedStrings(part: AsyncIterable<Uint8Array>): Promise<readonly string[]> {
  const strings: string[] = []
  let held = 0
  const reader = createTextReader()
  await readXml(part, {
    open: (name) => {
      if (name === 'si') reader.reset()
      else reader.open(name)
    },
    text: (text) => {
      held += text.length
      if (held > maxHeld) throw tooManyTextsError()
      reader.text(text)
    },
    close: (name) => {
      if (name !== 'si') return reader.close(name)
      held += textCost
      strings.push(decodeEscapes(reader.value()))
    },
  })
  return strings
}

function tooManyTextsError(): SourceReadError {
  return new SourceReadError('workbook_too_large', 'the workbook has too many texts: save the sheet as CSV (UTF-8)')
}

/** Joins the runs of a text. Phonetic readings (`rPh`) are not part of it. */
export function createTextReader() {
  let value = ''
  let isText = false
  let isReading = false
  return {
    reset: (): void => {
      value = ''
      isText = false
      isReading = false
    },
    open: (name: string): void => {
      if (name === 'rPh') isReading = true
      if (name === 't') isText = !isReading
    },
    text: (text: string): void => {
      if (isText) value += text
    },
    close: (name: string): void => {
      if (name === 'rPh') isReading = false
      if (name === 't') isText = false
    },
    value: (): string => value,
  }
}
