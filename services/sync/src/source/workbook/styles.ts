import { readXml } from './read-xml.ts'

/** How a cell shows a number: `date` with or without a time of day, `time` as a time of day, `elapsed` as hours. */
export type NumberKind = 'number' | 'date' | 'time' | 'elapsed'

/** Reads the kind of each cell format (`s` of a cell is the index). */
export async function readStyles(part: AsyncIterable<Uint8Array>): Promise<readonly NumberKind[]> {
  const custom = new Map<number, NumberKind>()
  const formats: number[] = []
  let isInCellFormats = false
  await readXml(part, {
    open: (name, attributes) => {
      if (name === 'cellXfs') isInCellFormats = true
      else if (name === 'numFmt') custom.set(Number(attributes['numFmtId']), kindOfCode(attributes['formatCode'] ?? ''))
      else if (name === 'xf' && isInCellFormats) formats.push(Number(attributes['numFmtId'] ?? 0))
    },
    close: (name) => {
      if (name === 'cellXfs') isInCellFormats = false
    },
  })
  return formats.map((format) => custom.get(format) ?? builtInKind(format))
}

const builtInTimes: ReadonlySet<number> = new Set([18, 19, 20, 21, 32, 33, 34, 35, 45, 47, 55, 56])

/** ECMA-376 part 1, section 18.8.30, with the formats of East Asian versions. */
function builtInKind(format: number): NumberKind {
  if (format === 46) return 'elapsed'
  if (builtInTimes.has(format)) return 'time'
  return (format >= 14 && format <= 22) || (format >= 27 && format <= 36) || (format >= 50 && format <= 58)
    ? 'date'
    : 'number'
}

/** Quoted and escaped text, fill characters, colors and locales of a format code. */
const literals = /"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^[\]]*\]/gi

export function kindOfCode(code: string): NumberKind {
  const [first = ''] = code.replaceAll(literals, '').split(';', 1)
  if (/^general$/i.test(first.trim())) return 'number'
  if (/\[(?:h+|m+|s+)\]/i.test(first)) return 'elapsed'
  if (/[yd]/i.test(first)) return 'date'
  if (/[hs]/i.test(first)) return 'time'
  return /m/i.test(first) ? 'date' : 'number'
}
