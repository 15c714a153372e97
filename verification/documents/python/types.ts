import type { JsonObject } from '../openapi.ts'
import { asList, asObject, textOf } from '../openapi.ts'

const keywords = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if ' +
    'import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
)

export function isPythonName(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name) && !keywords.has(name)
}

/** Writes TypedDict classes for schemas. Those without a name get that of their owner and member. */
export class TypeWriter {
  readonly #classes: string[] = []
  readonly #written = new Set<string>()
  readonly #prefix: string

  /** `prefix` stands before names of schemas, such as `models.`. */
  constructor(prefix = '') {
    this.#prefix = prefix
  }

  get classes(): readonly string[] {
    return this.#classes
  }

  typeOf(value: unknown, owner: string): string {
    const schema = asObject(value)
    const reference = textOf(schema['$ref'])
    if (reference !== undefined) return this.#prefix + reference.slice(reference.lastIndexOf('/') + 1)
    const choices = [...asList(schema['anyOf']), ...asList(schema['oneOf'])]
    if (choices.length > 0 && schema['properties'] === undefined) {
      return unionOf(choices.map((choice, index) => this.typeOf(choice, `${owner}${index === 0 ? '' : index + 1}`)))
    }
    if (Array.isArray(schema['enum'])) return literalOf(schema['enum'])
    const types = Array.isArray(schema['type']) ? asList(schema['type']) : [schema['type']]
    return unionOf(types.map((type) => this.#simpleType(type, schema, owner)))
  }

  #simpleType(type: unknown, schema: JsonObject, owner: string): string {
    switch (type) {
      case 'string':
        return 'str'
      case 'integer':
        return 'int'
      case 'number':
        return 'float'
      case 'boolean':
        return 'bool'
      case 'null':
        return 'None'
      case 'array':
        return `List[${this.typeOf(schema['items'], `${owner}Item`)}]`
      case 'object': {
        if (schema['properties'] === undefined) {
          const values = schema['additionalProperties']
          return `Dict[str, ${typeof values === 'object' ? this.typeOf(values, `${owner}Value`) : 'Any'}]`
        }
        this.write(owner, schema)
        return owner
      }
      default:
        return 'Any'
    }
  }

  /** `isOptional` says which members can be absent. */
  write(name: string, schema: JsonObject, isOptional = optionalOf(schema)): void {
    if (this.#written.has(name)) return
    this.#written.add(name)
    const members = Object.entries(asObject(schema['properties'])).map(
      ([member, value]) => [member, this.typeOf(value, name + pascal(member))] as const,
    )
    const required = members.filter(([member]) => !isOptional(member))
    const optional = members.filter(([member]) => isOptional(member))
    if (!members.every(([member]) => isPythonName(member))) {
      const entries = members.map(([member, type]) => `    ${JSON.stringify(member)}: ${JSON.stringify(type)},`)
      this.#classes.push([`${name} = TypedDict("${name}", {`, ...entries, '}, total=False)'].join('\n'))
      return
    }
    if (required.length === 0 || optional.length === 0) {
      const isTotal = optional.length === 0
      this.#classes.push(classOf(name, isTotal ? 'TypedDict' : 'TypedDict, total=False', members))
      return
    }
    this.#classes.push(classOf(`_${name}Required`, 'TypedDict', required))
    this.#classes.push(classOf(name, `_${name}Required, total=False`, optional))
  }
}

function optionalOf(schema: JsonObject): (member: string) => boolean {
  const required = asList(schema['required'])
  return (member) => !required.includes(member)
}

function classOf(name: string, bases: string, members: readonly (readonly [string, string])[]): string {
  const body = members.map(([member, type]) => `    ${member}: ${type}`)
  return [`class ${name}(${bases}):`, ...(body.length === 0 ? ['    pass'] : body)].join('\n')
}

function literalOf(values: readonly unknown[]): string {
  const texts = values.filter((value) => value !== null).map((value) => JSON.stringify(value))
  return `Literal[${texts.join(', ')}]${values.includes(null) ? ' | None' : ''}`
}

function unionOf(types: readonly string[]): string {
  const parts = [...new Set(types)]
  return parts.includes('Any') ? 'Any' : parts.join(' | ')
}

export function pascal(name: string): string {
  return name.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_match, first: string) => first.toUpperCase())
}
