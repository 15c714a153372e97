import { RedisProtocolError, RespReader, type RespValue } from './resp-reader.ts'

/** The largest expected reply is a list of session ids. */
const replyLimits = { maxBulkBytes: 4 * 2 ** 20, maxValueBytes: 8 * 2 ** 20, maxMembers: 100_000 }
const commandLimits = { maxBulkBytes: 64 * 2 ** 20, maxValueBytes: 64 * 2 ** 20, maxMembers: 1_000_000 }
const lastSlot = 16_383

interface PendingCommand {
  readonly command: string
  readonly argument: string
  /** SUBSCRIBE is answered once per channel. */
  replies: number
}

/** Rejects replies that do not match the commands: ioredis would throw outside of any promise. */
export class ReplyGuard {
  readonly #sent = new RespReader(commandLimits)
  readonly #received = new RespReader(replyLimits)
  readonly #awaited: PendingCommand[] = []
  #isSubscribed = false

  recordCommands(bytes: Buffer): void {
    for (const command of this.#sent.read(bytes)) {
      const [name = '', argument = ''] =
        command.kind === 'array' ? command.items.slice(0, 2).map((item) => textOf(item)?.toLowerCase() ?? '') : []
      const channels = command.kind === 'array' ? command.items.length - 1 : 0
      this.#awaited.push({ command: name, argument, replies: name.endsWith('subscribe') ? Math.max(1, channels) : 1 })
    }
  }

  /** Throws RedisProtocolError for bytes that ioredis must not see. */
  checkReplies(bytes: Buffer): void {
    for (const reply of this.#received.read(bytes)) {
      if (this.#isSubscribed && isMessage(reply)) continue
      const [awaited] = this.#awaited
      if (awaited === undefined) throw new RedisProtocolError('a reply came that no command asked for')
      if (!isReplyTo(awaited, reply)) throw new RedisProtocolError(`the reply to ${awaited.command} has a wrong form`)
      if (awaited.command === 'subscribe' && reply.kind === 'array') this.#isSubscribed = true
      awaited.replies = reply.kind === 'error' ? 0 : awaited.replies - 1
      if (awaited.replies === 0) this.#awaited.shift()
    }
  }
}

function isMessage(reply: RespValue): boolean {
  if (reply.kind !== 'array' || textOf(reply.items[0]) !== 'message') return false
  const [, channel, message] = reply.items
  if (reply.items.length === 3 && channel?.kind === 'bulk' && message?.kind === 'bulk') return true
  throw new RedisProtocolError('a message has a wrong form')
}

function isReplyTo({ command, argument }: PendingCommand, reply: RespValue): boolean {
  if (reply.kind === 'error') return isRedirectionReadable(reply.text)
  if (reply.kind === 'simple' && reply.text === 'QUEUED') return true
  switch (command) {
    case 'subscribe':
    case 'unsubscribe':
      return isConfirmation(command, reply)
    case 'cluster':
      return argument !== 'slots' || areSlots(reply)
    case 'get':
      return reply.kind === 'bulk' || reply.kind === 'null'
    case 'info':
      return reply.kind === 'bulk'
    case 'hmget':
    case 'smembers':
      return reply.kind === 'array' && reply.items.every(({ kind }) => kind === 'bulk' || kind === 'null')
    case 'exec':
      return reply.kind === 'array' || reply.kind === 'null'
    default:
      return true
  }
}

function isRedirectionReadable(text: string): boolean {
  const [, slot, port] = /^(?:MOVED|ASK) (\d{1,5}) \S*:(\d{1,5})$/.exec(text) ?? []
  return /^(?:MOVED|ASK)\b/.test(text) ? Number(slot) <= lastSlot && isPort(Number(port)) : true
}

function isConfirmation(command: string, reply: RespValue): boolean {
  if (reply.kind !== 'array' || reply.items.length !== 3) return false
  const [name, channel, count] = reply.items
  return textOf(name) === command && channel?.kind === 'bulk' && count?.kind === 'integer'
}

function areSlots(reply: RespValue): boolean {
  if (reply.kind !== 'array') return false
  return reply.items.every((range) => {
    if (range.kind !== 'array') return false
    const [first, last, ...nodes] = range.items
    if (first?.kind !== 'integer' || last?.kind !== 'integer') return false
    const isInRange = first.value >= 0 && first.value <= last.value && last.value <= lastSlot
    return isInRange && nodes.every(isNode)
  })
}

function isNode(node: RespValue): boolean {
  if (node.kind !== 'array') return false
  const [host, port] = node.items
  return (host?.kind === 'bulk' || host?.kind === 'null') && port?.kind === 'integer' && isPort(port.value)
}

function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535
}

function textOf(value: RespValue | undefined): string | undefined {
  return value?.kind === 'bulk' ? value.text : undefined
}
