import type { CallOptions, Connection } from './connection.ts'
import { etagOf } from './etag.ts'
import type { AnswerOf, BodyOf, OperationName } from './operations.ts'
import { PosternProblem } from './problem.ts'

/** A resource as it was read, or its address: an id, `ref:<reference>` or `ext:<external id>`. */
export type Target = string | { readonly id: string }

export interface ChangeOptions extends CallOptions {
  /** The entity tag that the resource must still have. Default: that with which it was read. */
  readonly ifMatch?: string
}

export interface MoveOptions extends CallOptions {
  /** The entity tag that the resource must still have; without it, or with an address, it is moved as it is. */
  readonly ifMatch?: string
}

/** A resource that is read by itself. */
export interface Readable<Value> {
  get(address: string, options?: CallOptions): Promise<Value>
  /**
   * The same value when nothing has changed since it was read (and then next to nothing is sent), else what it is now, with
   * as much beside it as it was read with.
   */
  refresh(value: Value & { readonly id: string }, options?: CallOptions): Promise<Value>
}

/** A resource that is changed by a merge patch (RFC 7396). */
export interface Changeable<Value, Patch, Answer> {
  /**
   * Changes it if it is still as it was read: 412 `precondition_failed` when somebody was faster. With an address,
   * `ifMatch` must be given.
   */
  update(target: Target, patch: Patch, options?: ChangeOptions): Promise<Answer>
  /**
   * Reads it, changes what `change` says of it, and begins anew, up to five times, when somebody was faster. Nothing is
   * changed when `change` gives undefined. Gives what it is in the end.
   */
  edit(
    address: string,
    change: (current: Value) => Patch | undefined | Promise<Patch | undefined>,
    options?: CallOptions,
  ): Promise<Value | Answer>
}

const editTries = 5

/** The resource's address. */
export function addressOf(target: Target): string {
  return typeof target === 'string' ? target : target.id
}

/** If-Match of a change, where there is something to say. */
export function ifMatchOf(target: Target, ifMatch: string | undefined): { 'if-match'?: string } {
  const tag = ifMatch ?? (typeof target === 'string' ? undefined : etagOf(target))
  return tag === undefined ? {} : { 'if-match': tag }
}

/** Reading by the operation `get`, whose path has one parameter. */
export function readable<N extends OperationName>(
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

/** Changing by the operation `update`, reading by `get`. */
export function changeable<G extends OperationName, U extends OperationName>(
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
        throw new TypeError('read the resource with this client and change that, or give its entity tag as ifMatch')
      }
      return await change(addressOf(target), headers, patch, signal)
    },
    edit: async (address, changeOf, { signal } = {}) => {
      for (let left = editTries; ; left -= 1) {
        const current = await connection.call(get, { params: { id: address }, signal })
        const patch = await changeOf(current)
        if (patch === undefined) return current
        const tag = typeof current === 'object' && current !== null ? etagOf(current) : undefined
        try {
          return await change(address, tag === undefined ? {} : { 'if-match': tag }, patch, signal)
        } catch (error) {
          const isOvertaken = error instanceof PosternProblem && error.code === 'precondition_failed'
          if (!isOvertaken || left === 1) throw error
        }
      }
    },
  }
}
