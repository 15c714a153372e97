import { z } from 'zod'
import { documentAs } from './each-on-its-own.ts'

/**
 * A parameter that comes once or several times. What its values are is told to the document by `one` and `commas`, which
 * is a text of several of them with commas between; what is made of them is for the caller to say.
 */
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

/** Several values that a pattern describes, with commas between, as a text of the document; nothing is checked by it. */
export function withCommas(pattern: string, most: number): z.ZodType {
  return z.string().meta({ pattern: `^(?:${pattern})(?:,(?:${pattern})){1,${most - 1}}$` })
}

/** The pattern of any of these words. */
export function patternOfWords(words: readonly string[]): string {
  return words.map((word) => word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)).join('|')
}

/** The pattern of a schema without its anchors; undefined where it has none. */
export function patternOf(schema: z.ZodType): string | undefined {
  const { pattern } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return pattern?.replace(/^\^/, '').replace(/\$$/, '')
}
