import { webhookEventTypes } from '@postern/contracts'
import { createTransport } from 'nodemailer'
import { type DueDelivery, urlOf } from '../rules.ts'
import type { SendResult, Sender } from './send.ts'

export interface Mailer {
  /** Rejects unless the server accepts the mail for every recipient. `messageId` is the same for each attempt. */
  send(mail: {
    readonly to: readonly string[]
    readonly messageId: string
    readonly subject: string
    readonly text: string
  }): Promise<void>
  close(): void
}

const timeoutMs = 10_000
const mailsPerSecond = 10

/** `from`: the address of the sender. Connects when a mail is sent. */
export function openMailer({ url, from }: { readonly url: string; readonly from: string }): Mailer {
  const transport = createTransport({
    url,
    pool: true,
    maxConnections: 2,
    rateLimit: mailsPerSecond,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    send: async ({ to, messageId, subject, text }) => {
      const { rejected } = await transport.sendMail({ from, to: [...to], messageId, subject, text })
      if (rejected.length > 0) throw new Error(`${rejected.length} recipients were rejected`)
    },
    close: () => transport.close(),
  }
}

export interface Recipient {
  readonly addresses: readonly string[]
  /** A line of the mail that says what the event is about. */
  readonly about?: string
}

/** Why an event has no recipient. */
export interface NoRecipient {
  readonly reason: string
  readonly isRetryable: boolean
}

/** Sends each event as an e-mail with its time and link. */
export function createMailSender(
  mailer: Mailer | undefined,
  {
    recipientOf,
    apiUrl,
    signal,
  }: {
    readonly recipientOf: (delivery: DueDelivery) => Promise<Recipient | NoRecipient>
    readonly apiUrl: string | undefined
    readonly signal: AbortSignal
  },
): Sender {
  return {
    send: async (delivery) => {
      const startedAt = performance.now()
      const result = (error: string | null, ownState?: SendResult['ownState']): SendResult => ({
        status: null,
        durationMs: Math.round(performance.now() - startedAt),
        error,
        answer: null,
        ...(ownState === undefined ? {} : { ownState }),
      })
      if (mailer === undefined) return result('E-mail is not configured. Ask the platform for `POSTERN_SMTP_URL`.')
      const recipient = await recipientOf(delivery)
      if ('reason' in recipient) return result(recipient.reason, recipient.isRetryable ? 'pending' : 'skipped')
      const { addresses: to, about } = recipient
      try {
        await mailer.send({ to, ...mailOf(delivery, { url: urlOf(delivery, apiUrl), about }) })
        return result(null)
      } catch (error) {
        if (signal.aborted) return undefined
        return result(
          `The mail server did not accept the mail (${codeOf(error)}). Check the addresses.`,
          about === undefined ? undefined : stateOfRefusal(error),
        )
      }
    },
    close: async () => await Promise.resolve(),
  }
}

function mailOf(
  { eventId, type, occurredAt }: Pick<DueDelivery, 'eventId' | 'type' | 'occurredAt'>,
  { url, about }: { readonly url: string; readonly about: string | undefined },
) {
  const meaning =
    new Map<string, { readonly meaning: string }>(Object.entries(webhookEventTypes)).get(type)?.meaning ?? type
  const lines = [...(about === undefined ? [] : [about]), `When: ${occurredAt.toISOString()}`, `Where: ${url}`]
  return {
    messageId: `<${eventId}@postern>`,
    subject: `Postern: ${meaning}`,
    text: `${meaning}.\n\n${lines.join('\n')}\nEvent: ${type} ${eventId}\n`,
  }
}

/** If the server refuses a mailbox or a mail, the endpoint still works. Only an unknown mailbox is final. */
function stateOfRefusal(error: unknown): SendResult['ownState'] {
  if (!(error instanceof Error && 'command' in error && 'responseCode' in error)) return undefined
  if (error.command === 'DATA') return 'pending'
  if (error.command !== 'RCPT TO') return undefined
  return Number(error.responseCode) < 500 ? 'pending' : 'failed'
}

/** Returns a text without the address, which the delivery log must not contain. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  const status = 'responseCode' in error ? error.responseCode : undefined
  const code = 'code' in error ? error.code : undefined
  return [code, status].filter((each) => each !== undefined).join(' ') || 'rejected'
}
