import { problemTypes } from '@postern/contracts'
import { operations } from '@postern/client'
import openapiTS, { astToString } from 'openapi-typescript'
import { type JsonObject, asList, asObject, readPublished, readWholeSchemas, schemasOf } from '../openapi.ts'

/** Types of the contracts that have another name in the OpenAPI document. */
const publishedNames = {
  AttachmentReceipt: 'EvidenceAttachmentReceipt',
  Entity: 'AuditableEntity',
  EvidenceDetailsInput: 'EvidenceDetails',
  ExpandedEntity: 'ExpandedAuditableEntity',
  LookedUpNode: 'LookedUpHierarchyNode',
  ProblemDocument: 'Problem',
  Receipt: 'EvidenceReceipt',
  StoredCustodyEvent: 'CustodyEvent',
  Whoami: 'Principal',
}

/** Declares resources and paths, by the names of the contracts and without zod. */
export async function renderApiTypes(): Promise<string> {
  const nodes = await openapiTS(JSON.stringify(readForTypes()), {
    immutable: true,
    rootTypes: true,
    rootTypesNoSchemaPrefix: true,
  })
  const names = Object.entries(publishedNames).map(([name, published]) => `export type ${name} = ${published};`)
  const codes = Object.keys(problemTypes).map((code) => JSON.stringify(code))
  return [astToString(nodes), ...names, `export type ProblemCode = ${codes.join(' | ')};`, ''].join('\n')
}

/** Declares what operations.ts exports, in terms of `renderApiTypes`. */
export function renderOperationTypes(): string {
  const entries = Object.entries(operations).map(([name, [method, path]]) => {
    const is = `paths['${publishedPath(path)}']['${method.toLowerCase()}']`
    return `  readonly ${name}: { at: readonly ['${method}', '${path}']; is: ${is} };`
  })
  return `import type { paths } from './api.js';
interface Described {
${entries.join('\n')}
}
export type OperationName = keyof Described;
export declare const operations: { readonly [N in OperationName]: Described[N]['at'] };
type Json<C> = C extends { readonly content: { readonly 'application/json': infer Value } } ? Value : never;
type Answer<O> = O extends { readonly responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never;
type Query<O> = O extends { readonly parameters: { readonly query?: infer Q } } ? NonNullable<Q> : never;
type OneOrSeveral<V> = V extends readonly (infer E)[] ? E | readonly E[] : V;
export type AnswerOf<N extends OperationName> = [Answer<Described[N]['is']>] extends [never]
  ? undefined
  : Answer<Described[N]['is']>;
export type ItemOf<N extends OperationName> = AnswerOf<N> extends readonly (infer Item)[] ? Item : never;
/** The request body of an operation. */
export type BodyOf<N extends OperationName> = Described[N]['is'] extends { readonly requestBody: infer Body }
  ? Json<Body>
  : Described[N]['is'] extends { readonly requestBody?: infer Body }
    ? Json<NonNullable<Body>> | undefined
    : undefined;
/** The query without the cursor. Several values of a parameter mean any of them. */
export type QueryOf<N extends OperationName> = [Query<Described[N]['is']>] extends [never]
  ? Record<string, never>
  : {
      readonly [P in Exclude<keyof Query<Described[N]['is']>, 'cursor' | 'count'>]?: OneOrSeveral<
        NonNullable<Query<Described[N]['is']>[P]>
      >;
    };
`
}

function publishedPath(path: string): string {
  return path.replaceAll(/:([a-z_]+)/g, '{$1}')
}

/** The published document without what types cannot say, and with the members that a whole resource always has. */
function readForTypes(): JsonObject {
  const published = readPublished()
  const whole = readWholeSchemas()
  const schemas = Object.fromEntries(
    Object.entries(schemasOf(published)).map(([name, schema]) => {
      const { required } = asObject(whole[name])
      return [name, required === undefined ? schema : { ...asObject(schema), required }]
    }),
  )
  const paths: Record<string, JsonObject> = {}
  for (const [method, path] of Object.values(operations)) {
    const name = publishedPath(path)
    const operation = asObject(asObject(asObject(published['paths'])[name])[method.toLowerCase()])
    paths[name] = { ...paths[name], [method.toLowerCase()]: readOperation(operation) }
  }
  const components = { ...asObject(published['components']), schemas }
  return asObject(withoutExamples({ ...published, paths, components }))
}

/** Without header parameters and refusals, which the client handles. */
function readOperation(operation: JsonObject): JsonObject {
  const { responses, operationId: _, ...rest } = operation
  const answers = Object.entries(asObject(responses)).filter(([status]) => status.startsWith('2'))
  const kept = answers.map(([status, answer]) => [status, { ...asObject(answer), headers: undefined }])
  return { ...rest, responses: Object.fromEntries(kept) }
}

function withoutExamples(value: unknown): unknown {
  if (Array.isArray(value)) return asList(value).map(withoutExamples)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([name, member]) => !isExample(name, member))
  return Object.fromEntries(members.map(([name, member]) => [name, withoutExamples(member)]))
}

function isExample(name: string, member: unknown): boolean {
  return name === 'example' || (name === 'examples' && Array.isArray(member))
}
