type Json = Readonly<Record<string, unknown>>

/** Returns `if`, `then` and `else` of JSON Schema 2020-12, which client generators ignore. */
export function conditional(condition: Json, consequence: Json, alternative?: Json): Json {
  const keywords = [
    ['if', condition],
    ['then', consequence],
    ['else', alternative],
  ] as const
  return Object.fromEntries(keywords.filter(([, schema]) => schema !== undefined))
}

export function requiredMembers(...names: readonly string[]): Json {
  return { properties: Object.fromEntries(names.map((name) => [name, {}])), required: names }
}

export function memberIs(name: string, value: string): Json {
  return { properties: { [name]: { enum: [value] } } }
}
