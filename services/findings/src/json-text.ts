/** An SQL expression of type text, the quote around it, and whether it can be null. */
export interface Member {
  readonly sql: string
  readonly quote: '"' | ''
  readonly isNullable: boolean
}

/** Faster than `row_to_json`. */
export function objectText(members: Readonly<Record<string, Member>>): string {
  let literal = '{'
  const parts = Object.entries(members).flatMap(([name, { sql, quote, isNullable }], at) => {
    const before = `${literal}${at === 0 ? '' : ','}${JSON.stringify(name)}:`
    literal = isNullable ? '' : quote
    if (!isNullable) return [`'${before}${quote}'`, sql]
    const value = quote === '' ? sql : `${sql} || '${quote}'`
    return [`coalesce('${before}${quote}' || ${value}, '${before}null')`]
  })
  const all = [...parts, `'${literal}}'`]
  // One long chain of `||` copies its beginning for each part.
  const groups = Array.from({ length: Math.ceil(all.length / perGroup) }, (_none, at) =>
    all.slice(at * perGroup, (at + 1) * perGroup).join(' || '),
  )
  return groups.map((group) => `(${group})`).join(' || ')
}

const perGroup = 8

/** A null would make the whole object null. */
export function notNull(member: Member): Member {
  return { ...member, isNullable: false }
}

/** Unlike `to_json`, `json_scalar` looks up the type once per statement. */
export function scalarText(sql: string): Member {
  return { sql: `json_scalar(${sql})::text`, quote: '', isNullable: true }
}

export function unescapedText(sql: string): Member {
  return { sql: `${sql}::text`, quote: '"', isNullable: true }
}

export function rawText(sql: string): Member {
  return { sql: `(${sql})::text`, quote: '', isNullable: true }
}

/** False for null. */
export function booleanText(sql: string): Member {
  return notNull(rawText(`case when ${sql} then 'true' else 'false' end`))
}

/** `json_scalar` drops trailing zeros, so a microsecond is added and cut off. */
export function timeText(sql: string): Member {
  const text = `json_scalar(${sql} at time zone 'UTC' + interval '1 microsecond')::text`
  return { sql: `left(${text}, 24) || 'Z"'`, quote: '', isNullable: true }
}
