import { connect } from '@postern/client'
import { withGateway } from '../gateway.ts'
import { serveTools } from '../mcp/serve.ts'
import { readTools } from '../mcp/tools.ts'
import type { CommandContext } from '../session.ts'
import { readGatewaySettings } from '../settings.ts'

/** Serves the tools that the key may use until standard input ends. Standard output belongs to the protocol. */
export async function serveMcp(
  context: CommandContext,
  { allowWrites = false }: { readonly allowWrites?: boolean },
): Promise<void> {
  const { scopes } = await withGateway(context, async (client) => await client.whoami())
  const granted = new Set<string>(scopes)
  const tools = readTools().filter(
    (tool) =>
      (tool.method === 'GET' || allowWrites) &&
      (tool.scopes.length === 0 || tool.scopes.some((scope) => granted.has(scope))),
  )
  context.note?.(`postern: ${tools.length} tools${allowWrites ? '' : ', which only read'}`)
  const { url, key } = await readGatewaySettings(context.env)
  await serveTools(connect({ baseUrl: url, key }), tools, process.stdin, process.stdout)
}
