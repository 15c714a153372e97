import { useState } from 'react'
import { createWebhook } from '../api/webhooks.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'

interface Props {
  readonly onClose: () => void
  readonly onCreated: (secret: string) => void
}

export function NewWebhookDialog({ onClose, onCreated }: Props) {
  const [url, setUrl] = useState('')
  const [events, setEvents] = useState('*')
  const [description, setDescription] = useState('')
  const [fault, setFault] = useState<string>()
  const [attempt, setAttempt] = useState(() => crypto.randomUUID())
  const change = useChange()

  const create = async () => {
    const isUrl = URL.canParse(url) && ['https:', 'mailto:'].includes(new URL(url).protocol)
    setFault(isUrl ? undefined : 'Enter an https URL, such as https://hooks.example.com/postern.')
    if (!isUrl) return
    await change.run(async (signal) => {
      const wanted = events.split(/[\s,]+/).filter((name) => name !== '')
      const { secret = '' } = await createWebhook({ url, events: wanted, description }, attempt, signal)
      onCreated(secret)
    })
    // A corrected request is another one.
    setAttempt(crypto.randomUUID())
  }

  return (
    <Dialog
      title="New endpoint"
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button look="primary" isBusy={change.isBusy} onPress={() => void create()}>
            Create
          </Button>
        </>
      }
    >
      {change.failure === undefined ? undefined : (
        <Failure
          error={change.failure}
          title="The endpoint was not created"
          unsure="It is not known whether the endpoint was created"
        />
      )}
      <Overdue change={change} mayBe="The endpoint may already have been created." />
      <TextBox
        label="URL"
        value={url}
        onChange={(text) => {
          setUrl(text.trim())
          setFault(undefined)
        }}
        error={fault}
        maxLength={2000}
        autoFocus
        placeholder="https://hooks.example.com/postern"
        help="A public address with https, or mailto:soc@example.com for e-mail. Redirects are not followed."
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
    </Dialog>
  )
}
