import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { SMTPServer } from 'smtp-server'

export interface ReceivedMail {
  readonly to: readonly string[]
  readonly content: string
}

const refusalOf = (message: string, responseCode: number) => Object.assign(new Error(message), { responseCode })

/** Refuses mailboxes that begin with `unknown` for good, those with `full` for now, and the content to those with `blocked`. */
export async function startMailServer() {
  const mails: ReceivedMail[] = []
  let refusal: string | undefined
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    authOptional: true,
    onRcptTo: ({ address }, _session, callback) => {
      if (address.startsWith('unknown')) callback(refusalOf('no such mailbox', 550))
      else callback(address.startsWith('full') ? refusalOf('mailbox full', 452) : null)
    },
    onData: (stream, session, callback) => {
      void text(stream).then((content) => {
        if (refusal !== undefined) {
          callback(refusalOf(refusal, 451))
          return
        }
        if (session.envelope.rcptTo.some(({ address }) => address.startsWith('blocked'))) {
          callback(refusalOf('blocked', 554))
          return
        }
        mails.push({ to: session.envelope.rcptTo.map(({ address }) => address), content })
        callback()
      })
    },
  })
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  const address = server.server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  return {
    settings: { POSTERN_SMTP_URL: `smtp://127.0.0.1:${port}`, POSTERN_SMTP_FROM: 'postern@bank.example' },
    mailsTo: (recipient: string) => mails.filter(({ to }) => to.includes(recipient)),
    /** Refuses the content of every mail; undefined accepts it. */
    refuse: (message: string | undefined) => (refusal = message),
    close: async () => await new Promise<void>((resolve) => server.close(() => resolve())),
  }
}
