import { connectorConfigSchemas } from '@postern/contracts'
import { z } from 'zod'
import { type JsonObject, asList, asObject, textOf } from './openapi.ts'
import { renderTable } from './table.ts'

export function renderConnectors(): string {
  const sections = Object.entries(connectorConfigSchemas).map(([type, schema]) => sectionOf(type, schema))
  return `# Configuration of connectors

The members of \`config\`, by the \`type\` of the connector. This file is generated from the code: \`npm run docs\`.

${sections.join('\n')}`
}

function sectionOf(type: string, schema: z.ZodObject): string {
  const { description = '', examples = [] } = schema.meta() ?? {}
  // Without its id, which would make it a reference.
  const unnamed = z.strictObject(schema.shape)
  const rows = rowsOf(asObject(z.toJSONSchema(unnamed, { io: 'input', unrepresentable: 'any' })))
  return `## ${type}

${description}

${renderTable(['member', 'default', 'meaning'], rows)}
\`\`\`json
${JSON.stringify(asList(examples)[0], null, 2)}
\`\`\`
`
}

function rowsOf({ properties, required }: JsonObject): string[][] {
  return Object.entries(asObject(properties)).flatMap(([name, value]) => {
    const member = asObject(value)
    const variants = asList(member['oneOf'] ?? member['anyOf']).map(asObject)
    const parts = variants.flatMap((variant) =>
      rowsOf(variant)
        .filter(([part]) => part !== '`kind`')
        .map(([part = '', ...rest]) => [`\`${name}\` of ${code(kindOf(variant))}: ${part}`, ...rest]),
    )
    const absent = asList(required).includes(name) ? 'required' : code(member['default'])
    const words = variants.length > 0 ? variants.map(kindOf) : asList(member['enum'])
    const forms = words.length === 0 ? '' : `. One of ${words.map(code).join(', ')}`
    return [[`\`${name}\``, absent, `${textOf(member['description']) ?? ''}${forms}`], ...parts]
  })
}

function kindOf({ properties }: JsonObject): unknown {
  return asObject(asObject(properties)['kind'])['const']
}

function code(value: unknown): string {
  if (value === undefined || value === '') return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return `\`${text.replaceAll('\t', '\\t')}\``
}
