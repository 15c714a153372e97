import { useState } from 'react'
import { createAttempt } from '../api/attempt.ts'
import { type Webhook, listWebhooks } from '../api/webhooks.ts'
import { AdminsOnly } from '../keys/admins-only.tsx'
import { useSession } from '../shell/session-gate.tsx'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useFollowed } from '../ui/use-followed.ts'
import { useNow } from '../ui/use-now.ts'
import { When } from '../ui/when.tsx'
import { Deliveries } from './deliveries.tsx'
import { type Action, ActionDialog } from './action-dialog.tsx'
import { EditWebhookDialog, hasSecret } from './edit-dialog.tsx'
import { SecretDialog } from './secret-dialog.tsx'

const everyMs = (): number => 5000

export function WebhooksPage() {
  const { session } = useSession()
  return session.roles.includes('admin') ? <Webhooks /> : <AdminsOnly title="Webhooks" what="webhooks" />
}

function Webhooks() {
  const { resource, reload } = useFollowed<readonly Webhook[]>(listWebhooks, everyMs)
  const [editing, setEditing] = useState<{ readonly id: string | undefined }>()
  const [attempt] = useState(createAttempt)
  const [secret, setSecret] = useState<string>()
  const [asked, setAsked] = useState<{ readonly action: Action; readonly webhook: Webhook }>()
  const add = (
    <Button look="primary" icon="plus" onPress={() => setEditing({ id: undefined })}>
      New endpoint
    </Button>
  )
  return (
    <Page
      title="Webhooks"
      lead="Postern notifies your programs when a key is revoked, a finding changes or a run ends."
      actions={add}
    >
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The endpoints cannot be shown" onRetry={reload} />
      ) : resource.state === 'loading' ? (
        <div className="card skeleton-lines" aria-busy="true">
          <Skeleton width="70%" />
          <Skeleton width="60%" />
        </div>
      ) : resource.value.length === 0 ? (
        <Empty icon="globe" title="No endpoints yet" action={add}>
          An endpoint is an HTTPS address of yours. Postern sends it signed events with ids and links.
        </Empty>
      ) : (
        resource.value.map((webhook) => (
          <Endpoint
            key={webhook.id}
            webhook={webhook}
            onAsk={(action) => setAsked({ action, webhook })}
            onEdit={() => setEditing({ id: webhook.id })}
          />
        ))
      )}
      {editing === undefined ? undefined : (
        <EditWebhookDialog
          {...editing}
          attempt={attempt}
          onClose={() => setEditing(undefined)}
          onDone={(value) => {
            setEditing(undefined)
            setSecret(value)
            reload()
          }}
        />
      )}
      {secret === undefined ? undefined : <SecretDialog value={secret} onClose={() => setSecret(undefined)} />}
      {asked === undefined ? undefined : (
        <ActionDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(value) => {
            setAsked(undefined)
            setSecret(value)
            reload()
          }}
        />
      )}
    </Page>
  )
}

const tones = { enabled: 'success', disabled: 'neutral', paused: 'danger' } as const

interface EndpointProps {
  readonly webhook: Webhook
  readonly onAsk: (action: Action) => void
  readonly onEdit: () => void
}

function Endpoint({ webhook, onAsk, onEdit }: EndpointProps) {
  const now = useNow()
  const [isOpen, setOpen] = useState(false)
  const titleId = `endpoint-${webhook.id}`
  const isEnabled = webhook.state === 'enabled'
  return (
    <section className="card" aria-labelledby={titleId}>
      <div className="card-head">
        <h2 id={titleId}>
          {webhook.description === '' ? new URL(webhook.url).host || webhook.url : webhook.description}
        </h2>
        <Badge tone={webhook.failing_since !== null && isEnabled ? 'warning' : tones[webhook.state]} hasDot>
          {webhook.failing_since !== null && isEnabled ? 'failing' : webhook.state}
        </Badge>
      </div>
      {webhook.state === 'paused' ? (
        <Notice tone="warning" title="Postern has stopped sending events">
          {webhook.last_error ?? 'No delivery succeeded.'} Enable the endpoint once it works. Waiting deliveries are
          then sent.
        </Notice>
      ) : undefined}
      <dl className="facts facts-row facts-wide">
        <div>
          <dt>URL</dt>
          <dd>
            <code className="scope">{webhook.url}</code>
          </dd>
        </div>
        <div>
          <dt>Events</dt>
          <dd>{webhook.events.includes('*') ? 'All' : webhook.events.join(', ')}</dd>
        </div>
        <div>
          <dt>Last delivered</dt>
          <dd>
            {webhook.last_delivered_at === null ? (
              'Never'
            ) : (
              <When at={webhook.last_delivered_at} as="distance" now={now} />
            )}
          </dd>
        </div>
        <div>
          <dt>Waiting</dt>
          <dd>{webhook.pending}</dd>
        </div>
        {webhook.last_error === null ? undefined : (
          <div>
            <dt>Last error</dt>
            <dd>{webhook.last_error}</dd>
          </div>
        )}
      </dl>
      <div className="badges">
        {isEnabled ? (
          <>
            <Button size="small" onPress={() => onAsk('test')}>
              Send a test
            </Button>
            <Button size="small" icon="pause" onPress={() => onAsk('disable')}>
              Disable
            </Button>
          </>
        ) : (
          <Button size="small" icon="play" onPress={() => onAsk('enable')}>
            Enable
          </Button>
        )}
        <Button size="small" icon="pen" onPress={onEdit}>
          Edit
        </Button>
        {hasSecret(webhook) ? (
          <Button size="small" icon="rotate" onPress={() => onAsk('rotate')}>
            Replace secret
          </Button>
        ) : undefined}
        <Button size="small" icon="trash" onPress={() => onAsk('delete')}>
          Delete
        </Button>
        <Button size="small" onPress={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide deliveries' : 'Show deliveries'}
        </Button>
      </div>
      {isOpen ? <Deliveries id={webhook.id} canSend={isEnabled} /> : undefined}
    </section>
  )
}
