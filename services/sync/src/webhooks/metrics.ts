import type { WebhookDelivery } from '@postern/contracts'
import type { Registry } from '@postern/service-kit'
import { Counter, Histogram } from '@prometheus-io/client'
import type { DueDelivery } from './rules.ts'

export interface WebhookMetrics {
  /** `state`: that of the delivery after the attempt. */
  attempted(state: WebhookDelivery['state'], delivery: DueDelivery): void
  paused(): void
}

const outcomes = { delivered: 'delivered', pending: 'retried', failed: 'given_up', skipped: 'skipped' } as const

export function measureWebhooks(metrics: Registry): WebhookMetrics {
  const attempts = new Counter({
    name: 'postern_webhook_attempts_total',
    help: 'Requests to webhook endpoints, by outcome: delivered, retried later, given up, or skipped',
    labelNames: ['outcome'],
    registers: [metrics],
  })
  for (const outcome of Object.values(outcomes)) attempts.inc({ outcome }, 0)
  const pauses = new Counter({
    name: 'postern_webhook_pauses_total',
    help: 'Webhook endpoints that were paused because they failed for three days, or are gone',
    registers: [metrics],
  })
  const delay = new Histogram({
    name: 'postern_webhook_delay_seconds',
    help: 'Time from the commit of a change to its delivery at the first attempt',
    buckets: [0.5, 1, 2, 3, 5, 10, 30, 60, 300],
    registers: [metrics],
  })
  return {
    attempted: (state, { attempts: before, occurredAt }) => {
      attempts.inc({ outcome: outcomes[state] })
      if (state === 'delivered' && before === 0) delay.observe(Math.max(0, Date.now() - occurredAt.getTime()) / 1000)
    },
    paused: () => pauses.inc(),
  }
}
