import type { CallOptions, Connection } from './connection.ts'
import { etagOf } from './etag.ts'
import type { AnswerOf, BodyOf, OperationName } from './operations.ts'
import { PosternProblem } from './problem.ts'

/** A resource, or its address: an id, `ref:<reference>` or `ext:<external id>`. */
export type Target = string | { readonly id: string }

export interface ChangeOptions extends CallOptions {
  /** Defaults to the tag with which the resource was read. */
  readonly ifMatch?: string
}

export interface MoveOptions extends CallOptions {
  /** Defaults to the tag of a resource that this client read; an address has no default. */
  readonly ifMatch?: string
}

export interface Readable<Value> {
  get(address: string, options?: CallOptions): Promise<Value>
  /** Returns the same value if the resource has not changed, otherwise the current one with the same `expand`. */
  refresh(value: Value & { readonly id: string }, options?: CallOptions): Promise<Value>
}

/** A resource that accepts merge patches (RFC 7396). */
export interface Changeable<Value, Patch, Answer> {
  /** Throws 412 `precondition_failed` if the resource was changed. With an address, `ifMatch` is required. */
  update(target: Target, patch: Patch, options?: ChangeOptions): Promise<Answer>
  /**
   * Reads the resource and applies the patch that `change` returns (undefined: none). Starts again if somebody was faster,
   * five times at most.
   */
  edit(
    address: string,
    change: (current: Value) => Patch | undefined | Promise<Patch | undefined>,
    options?: CallOptions,
  ): Promise<Value | Answer>
}

const maxEdits = 5

export function addressOf(target: Target): string {
  return typeof target === 'string' ? target : target.id
}

export function ifMatchOf(target: Target, ifMatch: string | undefined): { 'if-match'?: string } {
  const tag = ifMatch ?? (typeof target === 'string' ? undefined : etagOf(target))
  return tag === undefined ? {} : { 'if-match': tag }
}

export function readableMethods<N extends OperationName>(
  connection: Connection,
  get: N,
  parameter = 'id',
): Readable<AnswerOf<N>> {
  return {
    get: async (address, { signal } = {}) => await connection.call(get, { params: { [parameter]: address }, signal }),
    refresh: async (value, { signal } = {}) => {
      const tag = etagOf(value)
      const address: unknown = parameter === 'id' ? value.id : Reflect.get(value, parameter)
      const headers = tag === undefined ? {} : { 'if-none-match': tag }
      const params = { [parameter]: String(address) }
      const read = await connection.call(get, { params, like: value, headers, signal })
      return read ?? value
    },
  }
}

export function changeableMethods<G extends OperationName, U extends OperationName>(
  connection: Connection,
  get: G,
  update: U,
): Changeable<AnswerOf<G>, BodyOf<U>, AnswerOf<U>> {
  const change = async (address: string, headers: { 'if-match'?: string }, patch: BodyOf<U>, signal?: AbortSignal) =>
    await connection.call(update, {
      params: { id: address },
      headers,
      ...(patch === undefined ? {} : { body: patch }),
      signal,
    })
  return {
    update: async (target, patch, { ifMatch, signal } = {}) => {
      const headers = ifMatchOf(target, ifMatch)
      if (headers['if-match'] === undefined) {
        throw new TypeError('pass a resource that this client read, or its entity tag as ifMatch')
      }
      return await change(addressOf(target), headers, patch, signal)
    },
    edit: async (address, createPatch, { signal } = {}) => {
      for (let attemptsLeft = maxEdits; ; attemptsLeft -= 1) {
        const current = await connection.call(get, { params: { id: address }, signal })
        const patch = await createPatch(current)
        if (patch === undefined) return current
        const tag = typeof current === 'object' && current !== null ? etagOf(current) : undefined
        try {
          return await change(address, tag === undefined ? {} : { 'if-match': tag }, patch, signal)
        } catch (error) {
          const isConflict = error instanceof PosternProblem && error.code === 'precondition_failed'
          if (!isConflict || attemptsLeft === 1) throw error
        }
      }
    },
  }
}
