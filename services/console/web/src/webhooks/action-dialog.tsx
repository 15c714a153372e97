import { useState } from 'react'
import { type Attempt, createAttempt } from '../api/attempt.ts'
import {
  type Webhook,
  deleteWebhook,
  readTaggedWebhook,
  rotateWebhookSecret,
  sendWebhook,
  updateWebhook,
} from '../api/webhooks.ts'
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
  test: { title: 'Send a test event?', text: 'The endpoint receives an event of type webhook.test.', verb: 'Send' },
  enable: {
    title: 'Enable this endpoint?',
    text: 'Waiting deliveries are sent. Events that happened while it was disabled are not.',
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
    text: 'Waiting deliveries are dropped. This cannot be undone.',
    verb: 'Delete',
  },
}

/** Returns the new secret, if there is one. */
async function perform(
  action: Action,
  { id }: Webhook,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<string | undefined> {
  switch (action) {
    case 'test':
      await attempt.carryOut(action, async (name) => await sendWebhook(id, undefined, name, signal))
      return undefined
    case 'enable':
      await updateWebhook(await readTaggedWebhook(id, signal), { state: 'enabled' }, signal)
      return undefined
    case 'disable':
      await updateWebhook(await readTaggedWebhook(id, signal), { state: 'disabled' }, signal)
      return undefined
    case 'rotate':
      return (await attempt.carryOut(action, async (name) => await rotateWebhookSecret(id, name, signal))).secret
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
  const [attempt] = useState(createAttempt)
  const { title, text, verb } = words[action]
  const run = async () => {
    await change.run(async (signal) => onDone(await perform(action, webhook, attempt, signal)))
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
        <Failure
          error={change.failure}
          title="The request was refused"
          unsure="It is not known whether the request was carried out"
        />
      )}
      <Overdue change={change} mayBe="The request may already have been carried out." />
      <p>
        <code className="scope">{webhook.url}</code>
      </p>
      <p>{text}</p>
    </Dialog>
  )
}
