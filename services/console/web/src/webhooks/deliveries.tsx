import { useCallback, useState } from 'react'
import { createAttempt } from '../api/attempt.ts'
import { type WebhookDelivery, listDeliveries, sendWebhook } from '../api/webhooks.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { type Reading, useFollowed } from '../ui/use-followed.ts'
import { useNow } from '../ui/use-now.ts'
import { When } from '../ui/when.tsx'

const tones = { pending: 'info', delivered: 'success', failed: 'danger', skipped: 'neutral' } as const
const everyMs = (): number => 3000

/** The newest deliveries to an endpoint. */
export function Deliveries({ id, canSend }: { readonly id: string; readonly canSend: boolean }) {
  const load = useCallback(async (reading: Reading) => await listDeliveries(id, reading), [id])
  const { resource, reload } = useFollowed<readonly WebhookDelivery[]>(load, everyMs)
  const change = useChange()
  const [attempt] = useState(createAttempt)
  const now = useNow()
  const sendAgain = async (deliveryId: string) => {
    await change.run(async (signal) => {
      await attempt.carryOut(deliveryId, async (name) => await sendWebhook(id, deliveryId, name, signal))
      reload()
    })
  }
  if (resource.state === 'failed') {
    return <Failure error={resource.error} title="The deliveries cannot be shown" onRetry={reload} />
  }
  if (resource.state === 'loading') return <Skeleton width="70%" />
  if (resource.value.length === 0) return <p className="faint">No deliveries in the last 30 days.</p>
  return (
    <>
      {change.failure === undefined ? undefined : (
        <Failure error={change.failure} title="The delivery was not sent again" />
      )}
      <div className="table-scroll" role="region" aria-label="Deliveries in a table" tabIndex={0}>
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">Event</th>
              <th scope="col">State</th>
              <th scope="col">Attempts</th>
              <th scope="col">Last attempt</th>
              <th scope="col">Response</th>
              <th scope="col">
                <span className="for-listeners">Action</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {resource.value.map((delivery) => (
              <tr key={delivery.id}>
                <th scope="row">
                  {delivery.type}
                  <span className="second-line">
                    <When at={delivery.occurred_at} />
                  </span>
                </th>
                <td>
                  <Badge tone={tones[delivery.state]}>{delivery.state}</Badge>
                </td>
                <td>{delivery.attempts}</td>
                <td>
                  {delivery.last_attempt_at === null ? (
                    '–'
                  ) : (
                    <When at={delivery.last_attempt_at} as="distance" now={now} />
                  )}
                </td>
                <td>{delivery.error ?? delivery.status ?? '–'}</td>
                <td>
                  {canSend ? (
                    <Button size="small" isDisabled={change.isBusy} onPress={() => void sendAgain(delivery.id)}>
                      Send again
                      <span className="for-listeners"> {delivery.type}</span>
                    </Button>
                  ) : undefined}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
