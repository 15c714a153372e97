import { type Webhook, deleteWebhook, rotateWebhookSecret, sendWebhook, updateWebhook } from '../api/webhooks.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'

export type Action = 'test' | 'enable' | 'disable' | 'rotate' | 'delete'

interface Words {
  readonly title: string
  readonly text: string
  readonly verb: string
}

const words: Readonly<Record<Action, Words>> = {
  test: { title: 'Send a test event?', text: 'The endpoint gets an event of the type webhook.test.', verb: 'Send' },
  enable: {
    title: 'Enable this endpoint?',
    text: 'The deliveries that waited are sent. Events from the time when it was off are not.',
    verb: 'Enable',
  },
  disable: {
    title: 'Disable this endpoint?',
    text: 'No more events are stored for it or sent to it.',
    verb: 'Disable',
  },
  rotate: {
    title: 'Replace the secret?',
    text: 'You get a new secret. For 24 hours, events are signed with both.',
    verb: 'Replace',
  },
  delete: {
    title: 'Delete this endpoint?',
    text: 'Deliveries that wait are dropped. This cannot be undone.',
    verb: 'Delete',
  },
}

/** Returns the new secret, if there is one. */
async function perform(action: Action, { id }: Webhook, signal: AbortSignal): Promise<string | undefined> {
  switch (action) {
    case 'test':
      await sendWebhook(id, undefined, signal)
      return undefined
    case 'enable':
      await updateWebhook(id, { state: 'enabled' }, signal)
      return undefined
    case 'disable':
      await updateWebhook(id, { state: 'disabled' }, signal)
      return undefined
    case 'rotate':
      return (await rotateWebhookSecret(id, signal)).secret
    case 'delete':
      await deleteWebhook(id, signal)
      return undefined
    default:
      return action satisfies never
  }
}

interface Props {
  readonly action: Action
  readonly webhook: Webhook
  readonly onClose: () => void
  /** With a new secret, if there is one. */
  readonly onDone: (secret: string | undefined) => void
}

export function ActionDialog({ action, webhook, onClose, onDone }: Props) {
  const change = useChange()
  const { title, text, verb } = words[action]
  const run = async () => {
    await change.run(async (signal) => onDone(await perform(action, webhook, signal)))
  }
  return (
    <Dialog
      title={title}
      isOpen
      isQuestion
      onClose={() => {
        if (!change.isBusy) onClose()
      }}
      footer={
        <>
          <Button onPress={onClose} isDisabled={change.isBusy}>
            Cancel
          </Button>
          <Button look={action === 'delete' ? 'danger' : 'primary'} isBusy={change.isBusy} onPress={() => void run()}>
            {verb}
          </Button>
        </>
      }
    >
      {change.failure === undefined ? undefined : (
        <Failure error={change.failure} title="Nothing was changed" unsure="It is not known whether it was done" />
      )}
      <Overdue change={change} mayBe="It may already be done." />
      <p>
        <code className="scope">{webhook.url}</code>
      </p>
      <p>{text}</p>
    </Dialog>
  )
}
