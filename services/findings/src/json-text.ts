/**
 * An object of JSON as an expression of type text, from the expressions of its members, each a text of JSON. PostgreSQL
 * puts texts together in half the time that row_to_json takes, which looks up the type of each value anew and walks to
 * each column of a row past all those before it.
 */
export function objectText(members: Readonly<Record<string, string>>): string {
  const parts = Object.entries(members).map(
    ([name, text], at) => `'${at === 0 ? '{' : ','}${JSON.stringify(name)}:' || ${text}`,
  )
  // In groups: what is put together is copied, again and again where it is one long chain.
  const groups = Array.from({ length: Math.ceil(parts.length / perGroup) }, (_none, at) =>
    parts.slice(at * perGroup, (at + 1) * perGroup).join(' || '),
  )
  return `${groups.map((group) => `(${group})`).join(' || ')} || '}'`
}

const perGroup = 4

/** Anything that PostgreSQL can write as JSON: texts that people have written, dates, lists. */
export function anyText(sql: string): string {
  return `coalesce(to_json(${sql})::text, 'null')`
}

/** A text in which nothing can stand that JSON escapes: a word of a known list, an id. */
export function wordText(sql: string): string {
  return `coalesce('"' || ${sql} || '"', 'null')`
}

/** A number, or what is JSON already. */
export function plainText(sql: string): string {
  return `coalesce((${sql})::text, 'null')`
}

/** Whether a condition holds; what is unknown does not. */
export function truthText(sql: string): string {
  return `case when ${sql} then 'true' else 'false' end`
}

/**
 * A timestamptz(3) as clients see it: `2026-03-31T09:00:00.000Z`. to_json leaves zeros at the end out and to_char takes twice as
 * long: hence a microsecond more, which is then cut off.
 */
export function timeText(sql: string): string {
  return `coalesce(left(to_json(${sql} at time zone 'UTC' + interval '1 microsecond')::text, 24) || 'Z"', 'null')`
}
