import { isDeepStrictEqual } from 'node:util'
import { type Route, itemSchemaOf } from '@postern/contracts'
import type { z } from 'zod'

export function assertItemInContract(route: Route, item: unknown): void {
  const schema = itemSchemaOf(route)
  if (schema !== undefined) assertFits(route, schema, item)
}

export function assertInContract(contract: Route, status: number, body: unknown): void {
  const answer = contract.answers[status]
  if (answer === undefined) throw new Error(`${contract.id} answers ${status}, which its contract does not have`)
  if (answer.schema === undefined || body === undefined) return
  assertFits(contract, answer.schema, body)
}

function assertFits(contract: Route, schema: z.ZodType, body: unknown): void {
  const sent: unknown = JSON.parse(JSON.stringify(body))
  if (!isDeepStrictEqual(schema.parse(sent), sent)) {
    throw new Error(`${contract.id} answers with members that its contract does not have`)
  }
}
