import { asList, asObject, readPublished, readWholeSchemas, schemasOf } from '../openapi.ts'
import { TypeWriter } from './types.ts'

const head = `"""The resources of the API as TypedDict classes. Generated from its OpenAPI document by \`npm run docs\`.

Answers can have further members. With \`fields\`, a resource has only those that you asked for.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict`

/** Returns the module \`postern.models\`. */
export function renderPythonModels(): string {
  const document = readPublished()
  const whole = readWholeSchemas()
  const writer = new TypeWriter()
  const others: string[] = []
  for (const [name, value] of Object.entries(schemasOf(document))) {
    const schema = asObject(value)
    // SCIM is for identity providers, which have clients of their own. Connectors of that type are not.
    if (name.startsWith('Scim') && name !== 'ScimConnectorConfig') continue
    if (schema['properties'] === undefined) {
      const type = name === 'JsonValue' ? 'Any' : writer.typeOf(schema, `${name}Value`)
      others.push(`${name} = ${type}`)
      continue
    }
    const required = new Set([
      ...asList(schema['required']),
      ...asList(asObject(whole[name] ?? whole[name.replace('Documented', '')])['required']),
    ])
    writer.write(name, schema, (member) => !required.has(member))
  }
  return `${[head, ...writer.classes].join('\n\n\n')}\n\n\n${others.join('\n')}\n`
}
