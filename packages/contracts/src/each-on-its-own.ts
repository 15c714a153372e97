import { z } from 'zod'

/** An item of a list whose items are judged one by one: parsed, or what is wrong with it. */
export type OwnItem<T> = { readonly ok: true; readonly item: T } | { readonly ok: false; readonly error: z.ZodError }

const documentedAs = new WeakMap<z.core.$ZodType, () => z.ZodType>()

/** Has the document say of a schema, which takes more than that to judge it later, what a client has to send. */
export function documentAs<T extends z.ZodType>(schema: T, documented: () => z.ZodType): T {
  documentedAs.set(schema, documented)
  return schema
}

/** What a client has to send where a schema takes more than that; undefined for every other schema. */
export function documentedSchema(schema: z.core.$ZodType): z.ZodType | undefined {
  return documentedAs.get(schema)?.()
}

/**
 * A list whose items are parsed one by one, so that a bad one is no fault of the others. Of a list that has more than
 * `max` items, max + 1 are given: whoever reads it refuses it then.
 */
export function eachOnItsOwn<T extends z.ZodType>(item: T, max: number) {
  return documentAs(z.array(z.unknown()).min(1), () => z.array(item).min(1).max(max)).transform(
    (items): OwnItem<z.output<T>>[] =>
      items.slice(0, max + 1).map((value) => {
        const parsed = item.safeParse(value)
        return parsed.success ? { ok: true, item: parsed.data } : { ok: false, error: parsed.error }
      }),
  )
}
