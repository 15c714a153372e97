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

/** `from`: the address of the sender. Connects when a mail is sent. */
export function openMailer({ url, from }: { readonly url: string; readonly from: string }): Mailer {
  const transport = createTransport({
    url,
    pool: true,
    maxConnections: 2,
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

/** Sends each event as a mail with its time and link. */
export function createMailSender(
  mailer: Mailer | undefined,
  {
    recipients,
    apiUrl,
    signal,
  }: { readonly recipients: readonly string[]; readonly apiUrl: string | undefined; readonly signal: AbortSignal },
): Sender {
  return {
    send: async (delivery) => {
      const startedAt = performance.now()
      const result = (error: string | null): SendResult => ({
        status: null,
        durationMs: Math.round(performance.now() - startedAt),
        error,
        answer: null,
      })
      if (mailer === undefined) return result('E-mail is not configured. Ask the platform for `POSTERN_SMTP_URL`.')
      try {
        await mailer.send({ to: recipients, ...mailOf(delivery, urlOf(delivery, apiUrl)) })
        return result(null)
      } catch (error) {
        if (signal.aborted) return undefined
        return result(`The mail server did not accept the mail (${codeOf(error)}). Check the addresses.`)
      }
    },
    close: async () => await Promise.resolve(),
  }
}

function mailOf({ eventId, type, occurredAt }: Pick<DueDelivery, 'eventId' | 'type' | 'occurredAt'>, url: string) {
  const meaning =
    new Map<string, { readonly meaning: string }>(Object.entries(webhookEventTypes)).get(type)?.meaning ?? type
  return {
    messageId: `<${eventId}@postern>`,
    subject: `Postern: ${meaning}`,
    text: `${meaning}.\n\nWhen: ${occurredAt.toISOString()}\nWhere: ${url}\nEvent: ${type} ${eventId}\n`,
  }
}

/** Names no address, which the delivery log would keep. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  const status = 'responseCode' in error ? error.responseCode : undefined
  const code = 'code' in error ? error.code : undefined
  return [code, status].filter((each) => each !== undefined).join(' ') || 'rejected'
}
