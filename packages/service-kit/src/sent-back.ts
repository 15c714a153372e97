import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import { inputErrors } from './input-errors.ts'
import { problem } from './problem.ts'

export interface Current {
  /** As the caller may read it. */
  readonly resource: object
  /** Members that the caller may not read, so they are never compared. */
  readonly hidden?: readonly string[]
  /** Members that say which resource is meant, so they are never left out. */
  readonly addressing?: readonly string[]
  /** Throws 428 or 412 if `If-Match` allows no change, and sets the entity tag. */
  confirm(): void
}

interface Sent<Body> {
  readonly schema: z.ZodType<Body>
  readonly value: unknown
  readonly path: string | undefined
}

/** Leaves out members equal to the stored ones. `unchanged` is the resource if all are equal. */
export function parseChange<Body>(
  { schema, value, path }: Sent<Body>,
  { resource, hidden = [], addressing = [], confirm }: Current,
  computed: readonly string[],
): { readonly body: Body } | { readonly unchanged: object } {
  const stored = new Map<string, unknown>(Object.entries(JSON.parse(JSON.stringify(resource))))
  const isSentBack = ([name, member]: [string, unknown]): boolean =>
    stored.has(name) &&
    !addressing.includes(name) &&
    (computed.includes(name) || isDeepStrictEqual(stored.get(name), member))
  const members = typeof value === 'object' && value !== null ? Object.entries(value) : []
  const changed = members.filter((member) => !isSentBack(member))
  if (members.length > 0 && changed.length === 0) {
    confirm()
    return { unchanged: resource }
  }
  const body = Array.isArray(value) || members.length === 0 ? value : Object.fromEntries(changed)
  const parsed = schema.safeParse(body)
  if (parsed.success) return { body: parsed.data }
  const errors = inputErrors(parsed.error, 'body', { value: body, schema, path }).map((error) => {
    const name = error.code === 'unknown' ? (error.pointer ?? '').slice(1) : ''
    if (stored.has(name)) return { ...error, ...readOnly }
    return hidden.includes(name) ? { ...error, ...hiddenReadOnly } : error
  })
  // The member was sent as it was read if the resource has changed since.
  if (errors.some(({ code }) => code === readOnly.code)) confirm()
  // Members that were left out have no errors.
  const ofChanges = errors.filter(({ pointer = '' }) => changed.some(([name]) => pointer.split('/')[1] === name))
  throw problem('invalid_content', { errors: ofChanges.length > 0 ? ofChanges : errors })
}

const hiddenReadOnly = { code: 'read_only', detail: 'cannot be changed here, nor read with these scopes: leave it out' }
const readOnly = { code: 'read_only', detail: 'cannot be changed here: leave it out, or send it as you read it' }
