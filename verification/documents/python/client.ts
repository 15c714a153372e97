import { type JsonObject, type Operation, asList, asObject, operationsOf, readPublished } from '../openapi.ts'
import { resources } from './resources.ts'
import { TypeWriter, isPythonName, pascal } from './types.ts'

const head = `"""The operations of the API. Generated from its OpenAPI document by \`npm run docs\`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Literal, TypedDict

from . import models
from ._base import AsyncResource, Resource, Target
from ._pages import AsyncPages, Pages

if TYPE_CHECKING:
    from typing_extensions import Unpack`

/** Parameters that the client sends itself. */
const ownParameters: ReadonlySet<string> = new Set([
  'cursor',
  'count',
  'csv',
  'format',
  'envelope',
  'file_name',
  'test_procedure',
])

/** Operations whose methods are written by hand, but whose parameters have a type. */
const otherOperations = ['uploadEvidence', 'startRun']

interface Method {
  readonly name: string
  readonly operation: Operation
  readonly pathNames: readonly string[]
  readonly queryType: string | undefined
  readonly bodyType: string | undefined
  readonly answerType: string
  readonly isPaged: boolean
}

/** Returns the module with a class for each kind of resource, and another for asyncio. */
export function renderPythonClient(): string {
  const operations = operationsOf(readPublished())
  const types = new TypeWriter('models.')
  const classes = Object.entries(resources).flatMap(([resource, methods]) => {
    const described = Object.entries(methods).map(([name, id]) =>
      methodOf(name, id, operationOf(operations, id), types),
    )
    return [false, true].map((isAsync) => renderClass(resource, described, isAsync))
  })
  for (const id of otherOperations) methodOf(id, id, operationOf(operations, id), types)
  return `${[head, ...types.classes, ...classes].join('\n\n\n')}\n`
}

function operationOf(operations: ReadonlyMap<string, Operation>, id: string): Operation {
  const operation = operations.get(id)
  if (operation === undefined) throw new TypeError(`there is no operation ${id}`)
  return operation
}

function methodOf(name: string, id: string, operation: Operation, types: TypeWriter): Method {
  const title = pascal(id)
  const isPaged = operation.query.some((parameter) => parameter.name === 'cursor')
  const query = operation.query.filter((parameter) => !ownParameters.has(parameter.name))
  if (query.length > 0) {
    const properties = Object.fromEntries(
      query.map((parameter) => [argumentOf(parameter.name), argumentSchemaOf(parameter.name, parameter.schema)]),
    )
    const required = query.flatMap((parameter) => (parameter.isRequired ? [argumentOf(parameter.name)] : []))
    types.write(`${title}Query`, { properties, required })
  }
  const answer = operation.answer
  return {
    name,
    operation,
    pathNames: [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, path = '']) => path),
    queryType: query.length === 0 ? undefined : `${title}Query`,
    bodyType: operation.body === undefined ? undefined : types.typeOf(operation.body.schema, `${title}Body`),
    answerType:
      answer === undefined
        ? 'None'
        : types.typeOf(isPaged ? asObject(answer)['items'] : answer, `${title}${isPaged ? 'Item' : 'Answer'}`),
    isPaged,
  }
}

/** A list or one of its values, and `True` for the text `true`. */
function argumentSchemaOf(parameter: string, schema: unknown): JsonObject {
  const { type, items, enum: values } = asObject(schema)
  const text = { type: 'string' }
  // It has the names of all members, which would hide the other parameters.
  if (parameter === 'fields') return { anyOf: [text, { type: 'array', items: text }] }
  if (type === 'array') return { anyOf: [items, schema] }
  return asList(values).includes('true') ? { anyOf: [{ type: 'boolean' }, schema] } : asObject(schema)
}

function renderClass(resource: string, methods: readonly Method[], isAsync: boolean): string {
  const texts = methods.map((method) => renderMethod(method, isAsync))
  const edit = renderEdit(methods, isAsync)
  const prefix = isAsync ? 'Async' : ''
  const members = [...texts, ...(edit === undefined ? [] : [edit])].join('\n\n')
  return `class ${prefix}${resource}(${prefix}Resource):\n${members}`
}

function renderMethod(method: Method, isAsync: boolean): string {
  const { name, operation, pathNames, queryType, bodyType, answerType, isPaged } = method
  const takesKey = operation.method === 'POST'
  const takesTag = operation.headers.has('if-match')
  const named = [
    ...(takesTag ? ['if_match: str | None = None'] : []),
    ...(takesKey ? ['idempotency_key: str | None = None'] : []),
  ]
  const parameters = [
    'self',
    ...pathNames.map((each) => `${each}: Target`),
    ...(bodyType === undefined
      ? []
      : [operation.body?.isRequired === false ? `body: ${bodyType} | None = None` : `body: ${bodyType}`]),
    ...(named.length > 0 ? ['*', ...named] : []),
    ...(queryType === undefined ? [] : [`**query: Unpack[${queryType}]`]),
  ]
  const path = `{${pathNames.map((each) => `"${each}": ${each}`).join(', ')}}`
  const inputs = [
    ...(queryType === undefined ? [] : ['query=query']),
    ...(bodyType === undefined ? [] : ['body=body']),
    ...(takesTag ? ['if_match=if_match'] : []),
    ...(takesKey ? ['idempotency_key=idempotency_key'] : []),
  ]
  const awaits = isAsync && !isPaged
  const answer = isPaged ? `${isAsync ? 'AsyncPages' : 'Pages'}[${answerType}]` : answerType
  const call = isPaged
    ? `self._pages(${[`"${operation.path}"`, path, ...inputs].join(', ')})`
    : `self._call(${[`"${operation.method}"`, `"${operation.path}"`, path, ...inputs].join(', ')})`
  return [
    `    ${awaits ? 'async ' : ''}def ${name}(`,
    ...parameters.map((parameter) => `        ${parameter},`),
    `    ) -> ${answer}:`,
    `        """${operation.summary}."""`,
    `        return ${awaits ? 'await ' : ''}${call}`,
  ].join('\n')
}

/** Reads, changes and updates, for resources that can be read and updated. */
function renderEdit(methods: readonly Method[], isAsync: boolean): string | undefined {
  const get = methods.find(({ name }) => name === 'get')
  const update = methods.find(({ name }) => name === 'update')
  if (get === undefined || update?.bodyType === undefined) return undefined
  return [
    `    ${isAsync ? 'async ' : ''}def edit(`,
    '        self,',
    '        id: Target,',
    `        change: Callable[[${get.answerType}], ${update.bodyType} | None],`,
    `    ) -> ${update.answerType}:`,
    '        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""',
    `        return ${isAsync ? 'await ' : ''}self._edit("${get.operation.path}", id, change)`,
  ].join('\n')
}

/** Like PEP 8: `from_` for the keyword `from`. The client removes the underscore. */
function argumentOf(parameter: string): string {
  return isPythonName(parameter) ? parameter : `${parameter}_`
}
