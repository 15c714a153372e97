import { z } from 'zod'
import { documentAs } from './parse-items-separately.ts'

/** A query parameter with one text or, if it is repeated, a list. `documented` is the schema of one, and of a list with commas. */
export function onceOrRepeated(
  most: number,
  documented: () => { readonly one: z.ZodType; readonly commas?: z.ZodType },
) {
  return documentAs(z.union([z.string(), z.array(z.string())]), () => {
    const { one, commas } = documented()
    const each = commas === undefined ? one : z.union([one, commas])
    const repeated = z.array(each).min(1).max(most)
    return z.union(commas === undefined ? [one, repeated] : [one, commas, repeated])
  })
}

export function withCommas(pattern: string, most: number): z.ZodType {
  return z.string().meta({ pattern: `^(?:${pattern})(?:,(?:${pattern})){1,${most - 1}}$` })
}

export function patternOfWords(words: readonly string[]): string {
  return words.map((word) => word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)).join('|')
}

/** Without anchors. */
export function patternOf(schema: z.ZodType): string | undefined {
  const { pattern } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return pattern?.replace(/^\^/, '').replace(/\$$/, '')
}
