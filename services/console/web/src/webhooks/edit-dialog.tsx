import { keyOwnerEvents, keyOwnerUrl } from '@postern/contracts'
import { useState } from 'react'
import { type Webhook, createWebhook, updateWebhook } from '../api/webhooks.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'

interface Props {
  /** Undefined for a new one. */
  readonly webhook: Webhook | undefined
  readonly onClose: () => void
  /** The secret of a new endpoint that signs. */
  readonly onDone: (secret: string | undefined) => void
}

export function EditWebhookDialog({ webhook, onClose, onDone }: Props) {
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [events, setEvents] = useState(webhook?.events.join('\n') ?? '*')
  const [description, setDescription] = useState(webhook?.description ?? '')
  const [ca, setCa] = useState(webhook?.ca ?? '')
  const [fault, setFault] = useState<string>()
  const [attempt, setAttempt] = useState(() => crypto.randomUUID())
  const change = useChange()

  const save = async () => {
    const isUrl = URL.canParse(url) && ['https:', 'mailto:'].includes(new URL(url).protocol)
    setFault(isUrl ? undefined : 'Enter an https URL, such as https://hooks.example.com/postern.')
    if (!isUrl) return
    await change.run(async (signal) => {
      const wanted = events.split(/[\s,]+/).filter((name) => name !== '')
      const body = { url, events: wanted, description, ca: ca.trim() === '' || isMail(url) ? null : ca }
      if (webhook === undefined) {
        const { secret } = await createWebhook(body, attempt, signal)
        onDone(hasSecret({ url }) ? secret : undefined)
      } else {
        await updateWebhook(webhook.id, body, signal)
        onDone(undefined)
      }
    })
    // A corrected request is another one.
    setAttempt(crypto.randomUUID())
  }

  return (
    <Dialog
      title={webhook === undefined ? 'New endpoint' : 'Edit endpoint'}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button look="primary" isBusy={change.isBusy} onPress={() => void save()}>
            {webhook === undefined ? 'Create' : 'Save'}
          </Button>
        </>
      }
    >
      {change.failure === undefined ? undefined : (
        <Failure
          error={change.failure}
          title="The endpoint was not saved"
          unsure="It is not known whether the endpoint was saved"
        />
      )}
      <Overdue change={change} mayBe="The endpoint may already have been saved." />
      <TextBox
        label="URL"
        value={url}
        onChange={(text) => {
          setUrl(text.trim())
          setFault(undefined)
          if (text.trim() === keyOwnerUrl && events === '*') setEvents(keyOwnerEvents.join('\n'))
        }}
        error={fault}
        maxLength={2000}
        autoFocus
        placeholder="https://hooks.example.com/postern"
        help="A public address with https, mailto:soc@example.com for e-mail, or mailto:{key_owner} for the owner of each key. Redirects are not followed."
      />
      <TextBox
        label="Events"
        value={events}
        onChange={setEvents}
        rows={3}
        help="* for all, a group such as key.* or finding.*, or types such as key.revoked; one per line."
      />
      <TextBox
        label="Description"
        isOptional
        value={description}
        onChange={setDescription}
        maxLength={255}
        placeholder="Ticket bridge"
      />
      {isMail(url) ? undefined : (
        <TextBox
          label="Certificates"
          isOptional
          value={ca}
          onChange={setCa}
          rows={3}
          maxLength={20_000}
          placeholder="-----BEGIN CERTIFICATE-----"
          help="In PEM, to trust instead of the public authorities: for a receiver with a certificate of your own."
        />
      )}
    </Dialog>
  )
}

/** E-mail is not signed. */
export function hasSecret({ url }: Pick<Webhook, 'url'>): boolean {
  return !isMail(url)
}

function isMail(url: string): boolean {
  return url.startsWith('mailto:')
}
