import { type Connection, PosternProblem, type Request, nextUrl } from '@postern/client'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { AgentTool } from './tools.ts'

type Arguments = Readonly<Record<string, unknown>>

const defaultLimit = 20
/** In characters: more would fill the context of an agent. */
const maxText = 40_000

/** Calls the operation of a tool. A refusal of the API is a result, so that the agent can correct its arguments. */
export async function callTool(
  connection: Connection,
  tool: AgentTool,
  given: Arguments,
  signal?: AbortSignal,
): Promise<CallToolResult> {
  const missing = tool.inputSchema.required.filter((name) => given[name] === undefined)
  if (missing.length > 0) return refusal(`Required arguments are missing: ${missing.join(', ')}.`)
  const unusable = pathNames(tool).filter((name) => /^\.{0,2}$/.test(String(given[name])))
  if (unusable.length > 0)
    return refusal(`These arguments must be ids, \`ref:…\` or \`ext:…\`: ${unusable.join(', ')}.`)
  try {
    const { headers, text } = await connection.receive(requestOf(tool, given, signal))
    return { content: [{ type: 'text', text: answerText(text, headers) }] }
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof PosternProblem) return refusal(describeProblem(error))
    return refusal(`The API cannot be reached: ${error instanceof Error ? error.message : 'unknown error'}. Try again.`)
  }
}

function requestOf(tool: AgentTool, given: Arguments, signal: AbortSignal | undefined): Request {
  const { etag, ...rest } = given
  const query = new URLSearchParams()
  const body: Record<string, unknown> = {}
  const path = tool.path.replaceAll(/\{([a-z_]+)\}/g, (_match, name: string) => pathSegment(rest[name]))
  for (const [name, value] of Object.entries(withDefaults(tool, rest))) {
    if (tool.path.includes(`{${name}}`)) continue
    // The API names unknown arguments.
    if (tool.queryNames.has(name) || tool.bodyMediaType === undefined) query.set(name, queryValue(value))
    else body[name] = value
  }
  const search = query.toString()
  const headers = {
    ...(typeof etag === 'string' ? { 'if-match': etag } : {}),
    ...(tool.bodyMediaType === undefined ? {} : { 'content-type': tool.bodyMediaType }),
    ...(tool.method === 'POST' ? { 'idempotency-key': crypto.randomUUID() } : {}),
  }
  return {
    method: methodOf(tool),
    target: `${path}${search === '' ? '' : `?${search}`}`,
    headers,
    ...(tool.bodyMediaType === undefined ? {} : { body: JSON.stringify(body) }),
    signal,
  }
}

function pathNames({ path }: AgentTool): readonly string[] {
  return [...path.matchAll(/\{([a-z_]+)\}/g)].map(([, name = '']) => name)
}

/** Short answers, unless the agent asks for more. */
function withDefaults({ queryNames, fields }: AgentTool, given: Arguments): Arguments {
  return {
    ...(queryNames.has('limit') ? { limit: defaultLimit } : {}),
    ...(queryNames.has('fields') && fields !== undefined ? { fields } : {}),
    ...given,
  }
}

function methodOf({ method }: AgentTool): 'GET' | 'POST' | 'PATCH' {
  if (method === 'GET' || method === 'POST' || method === 'PATCH') return method
  throw new Error(`no tool uses ${method}`)
}

/** The gateway rejects unnecessary escapes, such as that of the colon of `ref:`. */
function pathSegment(value: unknown): string {
  return encodeURIComponent(String(value)).replaceAll('%3A', ':')
}

function queryValue(value: unknown): string {
  return Array.isArray(value) ? value.map(String).join(',') : String(value)
}

function answerText(text: string, headers: Headers): string {
  const value: unknown = text === '' ? null : JSON.parse(text)
  const etag = headers.get('etag')
  if (!Array.isArray(value)) return limitText(etag === null ? { value } : { value, etag })
  const items: readonly unknown[] = value
  const total = headers.get('x-total-count')
  return limitList(items, { ...(total === null ? {} : { total: Number(total) }), ...nextPage(headers) })
}

/** Leaves out whole items, and with them the cursor, which would skip them. */
function limitList(items: readonly unknown[], more: Readonly<Record<string, unknown>>): string {
  const whole = JSON.stringify({ items, ...more })
  if (whole.length <= maxText) return whole
  let kept = 0
  for (let length = 0; kept < items.length; kept += 1) {
    length += JSON.stringify(items[kept]).length + 1
    if (length > maxText) break
  }
  const note = `Only ${kept} of ${items.length} items fit. Repeat with limit ${Math.max(1, kept)} or fewer fields.`
  return JSON.stringify({ items: items.slice(0, kept), note })
}

function limitText(value: unknown): string {
  const text = JSON.stringify(value)
  if (text.length <= maxText) return text
  const note = 'The answer is too long and was cut. Ask for fewer fields, or for a part of it.'
  return JSON.stringify({ note, begins_with: text.slice(0, maxText) })
}

/** The argument that continues a list: `since` a position for changes, otherwise a `cursor`. */
function nextPage(headers: Headers): Readonly<Record<string, string>> {
  const since = headers.get('postern-next-since')
  if (since !== null) return { next_since: since }
  const next = nextUrl(headers.get('link'))
  const cursor = next === undefined ? null : new URL(next, 'http://gateway').searchParams.get('cursor')
  return cursor === null ? {} : { next_cursor: cursor }
}

function describeProblem({ problem, code, requestId }: PosternProblem): string {
  const said = problem.detail ?? problem.title
  const faults = (problem.errors ?? []).filter(({ detail }) => !said.includes(detail.replace(/\.$/, '')))
  const lines = [said, ...faults.map(({ parameter, pointer, detail }) => `${parameter ?? pointer ?? ''} ${detail}`)]
  return [...lines, `(${code}, request ${requestId})`].join('\n')
}

function refusal(text: string): CallToolResult {
  return { isError: true, content: [{ type: 'text', text }] }
}
