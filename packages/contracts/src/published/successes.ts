import { type Json, asJson, mapMembers, schemaNameOf } from './json.ts'
import { pascalCase } from './parameters.ts'
import type { SharedResponses } from './responses.ts'

/** Turns a success that several operations have into a component. */
export function shareSuccesses(operations: readonly Json[], shared: SharedResponses): Json[] {
  const counts = new Map<string, number>()
  for (const key of operations.flatMap(successesOf)) counts.set(key, (counts.get(key) ?? 0) + 1)
  const names = new Map<string, string>()
  return operations.map((operation) => ({
    ...operation,
    responses: mapMembers(operation['responses'], (response, status) => {
      const key = JSON.stringify(response)
      if (!isSuccess(status) || (counts.get(key) ?? 0) < 2) return response
      const name = names.get(key) ?? freeName(asJson(response), operation, status, shared)
      names.set(key, name)
      shared.set(name, asJson(response))
      return { $ref: `#/components/responses/${name}` }
    }),
  }))
}

function successesOf(operation: Json): string[] {
  const responses = Object.entries(asJson(operation['responses']))
  return responses.flatMap(([status, response]) => (isSuccess(status) ? [JSON.stringify(response)] : []))
}

function isSuccess(status: string): boolean {
  return status.startsWith('2')
}

/** The schema and the status, or the first operation if that name is taken. */
function freeName(response: Json, operation: Json, status: string, shared: SharedResponses): string {
  const [media] = Object.values(asJson(response['content'])).map(asJson)
  const item = schemaNameOf(asJson(media?.['schema'])['items'])
  const subject = schemaNameOf(media?.['schema']) ?? (item === undefined ? undefined : `${item}List`)
  const id = String(operation['operationId'])
  const named = `${subject ?? pascalCase(id)}${status}`
  return shared.has(named) ? `${pascalCase(id)}${status}` : named
}
