import type { MappingRule } from '@postern/contracts'

/** A rule as it is carried out. */
export type Rule = MappingRule & {
  /** What is a text alone counts as a list of it. */
  readonly isOneAList?: true
}

/** The rules as they are carried out on items that have these `attributes`; as they are for those of any other source. */
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

/** Returns the rules with their sources written as the items of the source type have them. */
export function rulesInNames(
  rules: readonly MappingRule[],
  type: { readonly nameOf: (name: string) => string },
): readonly MappingRule[] {
  return rules.map((rule) => {
    const { source } = rule
    if (source === undefined) return rule
    // Names of SCIM hold nothing that a JSON Pointer escapes.
    return {
      ...rule,
      source: source.startsWith('/') ? source.split('/').map(type.nameOf).join('/') : type.nameOf(source),
    }
  })
}

/** Which rules have a source that is none of the attributes. */
export function unreadSources(rules: readonly MappingRule[], attributes: readonly string[]): readonly number[] {
  return rules.flatMap(({ source }, index) => {
    if (source === undefined) return []
    // The options behind a name are its server's matter (RFC 4512 §2.5).
    const [own = ''] = nameOf(source).split(';', 1)
    return attributes.some((name) => isSame(name, own)) ? [] : [index]
  })
}

/** What is read of an item, at whatever place within it: no name of an attribute has anything that a pointer would escape. */
function nameOf(source: string): string {
  return source.startsWith('/') ? (source.split('/', 2)[1] ?? '') : source
}

function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase()
}
