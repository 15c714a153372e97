import type { MappingRule } from '@postern/contracts'

export type Rule = MappingRule & {
  /** A value that is no list is read as the first of one. */
  readonly isOneAList?: true
}

/** Adapts rules to items with these `attributes`. */
export function rulesOfAttributes(
  rules: readonly MappingRule[],
  attributes: readonly string[] | undefined,
): readonly Rule[] {
  if (attributes === undefined) return rules
  return rules.map((rule) => {
    const { source } = rule
    if (source === undefined) return rule
    const own = nameOf(source)
    const name = attributes.includes(own) ? own : (attributes.find((each) => isSame(each, own)) ?? own)
    if (source.startsWith('/')) return { ...rule, source: source.replace(own, name), isOneAList: true }
    return name === own ? rule : { ...rule, source: name }
  })
}

/** Returns the rules with their sources in the spelling of the source type. */
export function rulesInNames(
  rules: readonly MappingRule[],
  type: { readonly nameOf: (name: string) => string },
): readonly MappingRule[] {
  return rules.map((rule) => {
    const { source } = rule
    if (source === undefined) return rule
    // SCIM names contain nothing that a JSON Pointer escapes.
    return {
      ...rule,
      source: source.startsWith('/') ? source.split('/').map(type.nameOf).join('/') : type.nameOf(source),
    }
  })
}

export function unreadSources(rules: readonly MappingRule[], attributes: readonly string[]): readonly number[] {
  return rules.flatMap(({ source }, index) => {
    if (source === undefined) return []
    // The server interprets attribute options (RFC 4512, section 2.5).
    const [own = ''] = nameOf(source).split(';', 1)
    return attributes.some((name) => isSame(name, own)) ? [] : [index]
  })
}

function nameOf(source: string): string {
  return source.startsWith('/') ? (source.split('/', 2)[1] ?? '') : source
}

function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase()
}
