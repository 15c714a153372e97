import { keyOwnerEvents, keyOwnerUrl } from '@postern/contracts'
import { useCallback, useState } from 'react'
import type { Attempt } from '../api/attempt.ts'
import { ApiProblem } from '../api/request.ts'
import { type TaggedWebhook, type Webhook, createWebhook, readTaggedWebhook, updateWebhook } from '../api/webhooks.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { SaveFooter } from '../ui/save-footer.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { useResource } from '../ui/use-resource.ts'

interface Props {
  /** Undefined for a new endpoint. */
  readonly id: string | undefined
  /** Kept after closing: without a response, reopening repeats the same request. */
  readonly attempt: Attempt
  readonly onClose: () => void
  /** Receives the secret of a new endpoint that signs. */
  readonly onDone: (secret: string | undefined) => void
}

export function EditWebhookDialog({ id, ...rest }: Props) {
  return id === undefined ? <WebhookForm current={undefined} {...rest} /> : <ExistingWebhook id={id} {...rest} />
}

type FormProps = Omit<Props, 'id'>

function ExistingWebhook({ id, onClose, ...rest }: FormProps & { readonly id: string }) {
  const load = useCallback(async (signal: AbortSignal) => await readTaggedWebhook(id, signal), [id])
  const { resource, reload } = useResource<TaggedWebhook>(load)
  if (resource.state === 'ready') {
    const { value } = resource
    return <WebhookForm key={value.etag} current={value} onClose={onClose} onOutdated={reload} {...rest} />
  }
  return (
    <Dialog title="Edit endpoint" isOpen onClose={onClose} footer={<Button onPress={onClose}>Cancel</Button>}>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The endpoint cannot be read" onRetry={reload} />
      ) : (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="60%" />
          <Skeleton width="80%" />
        </div>
      )}
    </Dialog>
  )
}

interface WebhookFormProps extends FormProps {
  readonly current: TaggedWebhook | undefined
  readonly onOutdated?: () => void
}

function WebhookForm({ current, attempt, onClose, onDone, onOutdated }: WebhookFormProps) {
  const webhook = current?.webhook
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [events, setEvents] = useState(webhook?.events.join('\n') ?? '*')
  const [description, setDescription] = useState(webhook?.description ?? '')
  const [ca, setCa] = useState(webhook?.ca ?? '')
  const [fault, setFault] = useState<string>()
  const change = useChange()
  const { isBusy, failure } = change
  const isOutdated = failure instanceof ApiProblem && failure.problem.status === 412

  const save = async () => {
    const isUrl = URL.canParse(url) && ['https:', 'mailto:'].includes(new URL(url).protocol)
    setFault(isUrl ? undefined : 'Enter an https URL, such as https://hooks.example.com/postern.')
    if (!isUrl) return
    await change.run(async (signal) => {
      const wanted = events.split(/[\s,]+/).filter((name) => name !== '')
      const body = { url, events: wanted, description, ca: ca.trim() === '' || isMail(url) ? null : ca }
      if (current === undefined) {
        const { secret } = await attempt.carryOut(body, async (name) => await createWebhook(body, name, signal))
        onDone(hasSecret({ url }) ? secret : undefined)
      } else {
        await updateWebhook(current, body, signal)
        onDone(undefined)
      }
    })
  }

  return (
    <Dialog
      title={webhook === undefined ? 'New endpoint' : 'Edit endpoint'}
      isOpen
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <SaveFooter
          isBusy={isBusy}
          onCancel={onClose}
          onSave={() => void save()}
          outdated={
            isOutdated && onOutdated !== undefined
              ? { label: 'Show the current endpoint', onShow: onOutdated }
              : undefined
          }
          save={webhook === undefined ? 'Create' : 'Save'}
        />
      }
    >
      {failure === undefined ? undefined : isOutdated ? (
        <Notice tone="warning" title="Somebody else has changed the endpoint" isNews>
          Your changes were not saved.
        </Notice>
      ) : (
        <Failure
          error={failure}
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
        help="A public https URL, mailto:soc@example.com for e-mail, or mailto:{key_owner} for the owner of each key. Redirects are not followed."
      />
      <TextBox
        label="Events"
        value={events}
        onChange={setEvents}
        rows={3}
        help="One per line: * for all, a group such as key.* or finding.*, or a type such as key.revoked."
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
          help="PEM certificates to trust instead of the public authorities, for a receiver with a private certificate."
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
