type Json = Readonly<Record<string, unknown>>

/** Returns the keywords `if`, `then` and `else` of JSON Schema 2020-12. Client generators ignore them. */
export function conditional(condition: Json, consequence: Json, alternative?: Json): Json {
  const keywords = [
    ['if', condition],
    ['then', consequence],
    ['else', alternative],
  ] as const
  return Object.fromEntries(keywords.filter(([, schema]) => schema !== undefined))
}

/** Returns the JSON Schema of an object that has these members. */
export function requiredMembers(...names: readonly string[]): Json {
  return { properties: Object.fromEntries(names.map((name) => [name, {}])), required: names }
}

/** Returns the JSON Schema of an object whose member, if present, has this value. */
export function memberIs(name: string, value: string): Json {
  return { properties: { [name]: { enum: [value] } } }
}
