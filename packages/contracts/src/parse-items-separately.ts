import { z } from 'zod'

export type ParsedItem<T> =
  | { readonly ok: true; readonly item: T }
  | { readonly ok: false; readonly error: z.ZodError; readonly value: unknown }

const documentedAs = new WeakMap<z.core.$ZodType, () => z.ZodType>()

/** Publishes `documented` in the OpenAPI document in place of the schema. */
export function documentAs<T extends z.ZodType>(schema: T, documented: () => z.ZodType): T {
  documentedAs.set(schema, documented)
  return schema
}

/** Undefined if `documentAs` was not called. */
export function documentedSchema(schema: z.core.$ZodType): z.ZodType | undefined {
  return documentedAs.get(schema)?.()
}

/** An invalid item does not affect the others. Returns max + 1 items of a longer list, which the reader must reject. */
export function parseItemsSeparately<T extends z.ZodType>(item: T, max: number) {
  return documentAs(z.array(z.unknown()).min(1), () => z.array(item).min(1).max(max)).transform(
    (items): ParsedItem<z.output<T>>[] =>
      items.slice(0, max + 1).map((value) => {
        const parsed = item.safeParse(value)
        return parsed.success ? { ok: true, item: parsed.data } : { ok: false, error: parsed.error, value }
      }),
  )
}
